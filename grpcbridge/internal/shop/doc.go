// Package shop has the generated code of a service for the tests of package grpcbridge.
package shop

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative --connect-go_out=. --connect-go_opt=paths=source_relative shop.proto
