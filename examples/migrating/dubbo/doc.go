// Package dubbo has the test of how a service moves from Dubbo 3: before, in Java, and
// after. "make test-triple" runs it.
package dubbo
