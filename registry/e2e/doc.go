// Package e2e tests registries, servers and clients together: servers that are
// processes of their own, registries that are killed under load, and no call lost.
// It has tests only, which need the registries' servers and the build tag
// integration:
//
//	make test-registries
//	make registry-outage    # with an outage of five minutes
package e2e
