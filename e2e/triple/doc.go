// Package triple tests a tandem server with consumers of Apache Dubbo 3, in Java and
// from its published jars, over Triple. "make test-triple" runs it.
package triple

//go:generate protoc --go_out=. --go_opt=paths=source_relative carts.proto
