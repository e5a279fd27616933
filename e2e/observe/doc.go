// Package observe tests the dashboards and the alert rules of folder telemetry. It starts
// Prometheus on real servers and clients, first healthy ones and then in every kind of trouble that
// an alert is for. The package has tests only, which need Debian's prometheus and the build tag
// integration:
//
//	make test-observe
package observe
