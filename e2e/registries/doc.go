// Package registries tests registries, servers and clients together. Servers are processes
// of their own, registries and servers are killed under load, and no call may fail.
// The package has tests only, which need the registries' servers and the build tag
// integration:
//
//	make test-registries
//	make registry-outage    # with an outage of five minutes
package registries
