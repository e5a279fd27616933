// Package together has a server, and programs in several languages that call the same method of
// it, on the same port, at the same time: clients of every protocol, of other projects, with
// TLS and without. "make interop-together" installs and runs them.
package together

//go:generate protoc --go_out=. --go_opt=paths=source_relative -Itestdata gate.proto
