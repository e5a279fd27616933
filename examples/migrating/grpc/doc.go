// Package grpc has the test of how a service moves from gRPC: before and after.
package grpc
