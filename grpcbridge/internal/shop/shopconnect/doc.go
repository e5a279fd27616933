// Package shopconnect has the generated code of a service for the tests of package grpcbridge.
package shopconnect
