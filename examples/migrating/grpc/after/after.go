// Package after is the service and its caller with tandem. The method is the same, with
// tandem's errors; the server also serves gRPC's clients.
package after

import (
	"context"
	"errors"
	"net"
	"time"

	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Service returns payloads.
type Service struct{}

// UnaryCall returns a payload of the requested size.
func (Service) UnaryCall(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if req.GetResponseSize() < 0 {
		return nil, tandem.Errorf(tandem.InvalidArgument, "fewer than no bytes")
	}
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, req.GetResponseSize())}}, nil
}

// Serve serves until the listener is closed. The service has its full name, which gRPC's
// clients use.
func Serve(ln net.Listener) error {
	srv := server.New(server.WithCodecs(protobuf.Codec()), server.WithProtocols(web.New()))
	part := server.SkipUnsuitable() // TestService has more methods, which would be an error otherwise
	if err := srv.RegisterName("grpc.testing.TestService", Service{}, part); err != nil {
		return err
	}
	return errors.Join(srv.ServeListener(ln), srv.Close())
}

// Ask requests a payload of a size from the server at an address, and returns the size of the
// payload that it got.
func Ask(address string, size int32) (int, error) {
	c, err := client.Dial("tcp://"+address, client.WithCodec(protobuf.Codec()))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, err := client.Invoke[pb.SimpleResponse](ctx, c, "grpc.testing.TestService.UnaryCall", &pb.SimpleRequest{ResponseSize: size})
	return len(resp.GetPayload().GetBody()), err
}
