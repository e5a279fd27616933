// Package tripletest has consumers of Apache Dubbo 3, in Java and from its published
// jars, call a tandem server by Triple. "make test-triple" runs it.
package tripletest

//go:generate protoc --go_out=. --go_opt=paths=source_relative carts.proto
