// Package dubbo has the test of the migration of a service from Dubbo 3: before, in Java, and
// after. "make test-triple" runs it.
package dubbo
