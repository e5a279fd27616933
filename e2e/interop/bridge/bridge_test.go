// Package bridge runs the test cases of grpc-go's own interop suite with package grpcbridge: stubs and
// a service that are written and generated for grpc-go.
package bridge

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/grpcbridge"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cases are grpc-go's test cases, less those about credentials of one cloud, load reports, and
// *grpc.ClientConn. A case that fails ends the process with a message.
var cases = []struct {
	name string
	run  func(context.Context, pb.TestServiceClient, ...grpc.CallOption)
}{
	{"empty_unary", interop.DoEmptyUnaryCall},
	{"large_unary", interop.DoLargeUnaryCall},
	{"client_streaming", interop.DoClientStreaming},
	{"server_streaming", interop.DoServerStreaming},
	{"ping_pong", interop.DoPingPong},
	{"empty_stream", interop.DoEmptyStream},
	{"timeout_on_sleeping_server", interop.DoTimeoutOnSleepingServer},
	{"cancel_after_begin", interop.DoCancelAfterBegin},
	{"cancel_after_first_response", interop.DoCancelAfterFirstResponse},
	{"custom_metadata", interop.DoCustomMetadata},
	{"status_code_and_message", interop.DoStatusCodeAndMessage},
	{"special_status_message", interop.DoSpecialStatusMessage},
	{"unimplemented_method", unimplementedMethod},
}

// unimplementedMethod is DoUnimplementedMethod, which wants a *grpc.ClientConn.
func unimplementedMethod(ctx context.Context, tc pb.TestServiceClient, opts ...grpc.CallOption) {
	if _, err := tc.UnimplementedCall(ctx, new(pb.Empty), opts...); status.Code(err) != codes.Unimplemented {
		panic(err)
	}
}

func TestGRPCGoInterop(t *testing.T) {
	bridged := serve(t)
	for name, conn := range map[string]grpc.ClientConnInterface{
		"tandem's protocol":           dial(t, "tcp://"+bridged),
		"gRPC":                        dial(t, "grpc://"+bridged),
		"gRPC, at grpc-go's server":   dial(t, "grpc://"+serveGRPC(t)),
		"gRPC, with grpc-go's client": plain(t, bridged),
	} {
		for _, c := range cases {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c.run(ctx, pb.NewTestServiceClient(conn))
			})
		}
		t.Run("unimplemented_service/"+name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			interop.DoUnimplementedService(ctx, pb.NewUnimplementedServiceClient(conn))
		})
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve serves grpc-go's implementation of the service over tandem.
func serve(t *testing.T) string {
	t.Helper()
	srv := server.New(server.WithCodecs(protobuf.Codec()), server.WithProtocols(web.New()))
	if err := grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(r, interop.NewTestServer()) }); err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	go func() { _ = srv.ServeListener(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String()
}

func serveGRPC(t *testing.T) string {
	t.Helper()
	srv := grpc.NewServer()
	pb.RegisterTestServiceServer(srv, interop.NewTestServer())
	l := listen(t)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	return l.Addr().String()
}

func dial(t *testing.T, target string) grpc.ClientConnInterface {
	t.Helper()
	c, err := client.Dial(target, client.WithCodec(protobuf.Codec()), client.WithProtocols(web.GRPC()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return grpcbridge.NewClient(c)
}

func plain(t *testing.T, addr string) grpc.ClientConnInterface {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
