// Package grpc has the test of the migration of a service from gRPC: before and after.
package grpc
