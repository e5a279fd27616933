// Package before is a service and its caller with gRPC. The messages and the service's
// description are those of grpc-go's own tests, so that no generator is needed.
package before

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// Service returns payloads.
type Service struct {
	pb.UnimplementedTestServiceServer
}

// UnaryCall returns a payload of the requested size.
func (Service) UnaryCall(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if req.GetResponseSize() < 0 {
		return nil, status.Error(codes.InvalidArgument, "fewer than no bytes")
	}
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, req.GetResponseSize())}}, nil
}

// Serve serves until the listener is closed.
func Serve(ln net.Listener) error {
	srv := grpc.NewServer()
	pb.RegisterTestServiceServer(srv, Service{})
	defer srv.Stop()
	return srv.Serve(ln)
}

// Ask requests a payload of a size from the server at an address, and returns the size of the
// payload that it got.
func Ask(address string, size int32) (int, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	resp, err := pb.NewTestServiceClient(conn).UnaryCall(context.Background(), &pb.SimpleRequest{ResponseSize: size})
	return len(resp.GetPayload().GetBody()), err
}
