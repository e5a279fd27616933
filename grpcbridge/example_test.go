package grpcbridge_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/grpcbridge"
	"github.com/tandem-rpc/tandem/grpcbridge/internal/shop"
	"github.com/tandem-rpc/tandem/grpcbridge/internal/shop/shopconnect"
	"github.com/tandem-rpc/tandem/server"
)

// shelf implements the service as for grpc-go.
type shelf struct{ shop.UnimplementedCartsServer }

func (shelf) Add(ctx context.Context, item *shop.Item) (*shop.Cart, error) {
	if item.GetCount() < 0 {
		return nil, status.Error(codes.OutOfRange, "less than nothing")
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs("took", "no time")); err != nil {
		return nil, err
	}
	return &shop.Cart{Total: item.GetCount()}, nil
}

func (shelf) Items(cart *shop.Cart, s grpc.ServerStreamingServer[shop.Item]) error {
	for i := range cart.GetTotal() {
		if err := s.Send(&shop.Item{Name: "tea", Count: i}); err != nil {
			return err
		}
	}
	return nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// start serves, and returns a client of tandem's protocol.
func start(srv *server.Server) (c *client.Client, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() { _ = srv.ServeListener(l) }()
	c, err = client.Dial("tcp://"+l.Addr().String(), client.WithCodec(protobuf.Codec()))
	check(err)
	return c, func() { _, _ = c.Close(), srv.Close() }
}

func Example() {
	srv := server.New(server.WithCodecs(protobuf.Codec()))
	check(grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, shelf{}) }))
	c, stop := start(srv)
	defer stop()

	carts := shop.NewCartsClient(grpcbridge.NewClient(c))
	cart, err := carts.Add(context.Background(), &shop.Item{Name: "tea", Count: 2})
	fmt.Println(cart.GetTotal(), err)
	// Output:
	// 2 <nil>
}

// Generated functions can't return an error; Register does.
func ExampleRegister() {
	srv := server.New() // without the codec
	err := grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, shelf{}) })
	fmt.Println(err != nil, len(srv.Methods()))
	srv = server.New(server.WithCodecs(protobuf.Codec()))
	err = grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, shelf{}) })
	fmt.Println(err, len(srv.Methods()), srv.Methods()[0])
	// Output:
	// true 0
	// <nil> 5 tandem.bridgetest.v1.Carts.Add
}

// Interceptors of grpc-go run inside tandem's, and methods may have limits of package server.
func ExampleServerOption() {
	srv := server.New(server.WithCodecs(protobuf.Codec()))
	check(grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, shelf{}) },
		grpcbridge.WithUnaryServerInterceptors(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			fmt.Println("call of", info.FullMethod)
			return handler(ctx, req)
		}),
		grpcbridge.WithStreamServerInterceptors(func(impl any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			fmt.Println("stream of", info.FullMethod)
			return handler(impl, s)
		}),
		grpcbridge.WithMethodOptions("tandem.bridgetest.v1.Carts.Add", server.MethodConcurrency(10, 0))))
	c, stop := start(srv)
	defer stop()
	carts := shop.NewCartsClient(grpcbridge.NewClient(c))
	_, err := carts.Add(context.Background(), new(shop.Item))
	check(err)
	s, err := carts.Items(context.Background(), &shop.Cart{Total: 1})
	check(err)
	item, err := s.Recv()
	fmt.Println(item.GetName(), err)
	// Output:
	// call of /tandem.bridgetest.v1.Carts/Add
	// stream of /tandem.bridgetest.v1.Carts/Items
	// tea <nil>
}

// A stub's error has gRPC's status, and is tandem's error too.
func ExampleNewClient() {
	srv := server.New(server.WithCodecs(protobuf.Codec()))
	check(grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, shelf{}) }))
	c, stop := start(srv)
	defer stop()
	carts := shop.NewCartsClient(grpcbridge.NewClient(c))

	var trailer metadata.MD
	_, err := carts.Add(context.Background(), &shop.Item{Count: 1}, grpc.Trailer(&trailer))
	fmt.Println(trailer.Get("took"), err)
	_, err = carts.Add(context.Background(), &shop.Item{Count: -1})
	fmt.Println(status.Code(err))
	var e *tandem.Error
	fmt.Println(errors.As(err, &e), e.Remote, e.NotExecuted)
	_, err = carts.Add(context.Background(), new(shop.Item), grpc.CallAuthority("shop"))
	fmt.Println(err)
	// Output:
	// [no time] <nil>
	// OutOfRange
	// true true false
	// rpc error: code = Unimplemented desc = grpcbridge: call of /tandem.bridgetest.v1.Carts/Add: grpc.CallAuthority("shop") is not supported: the address of the instance is the authority
}

// Options of package client, for a call of a stub.
func ExampleCallOptions() {
	srv := server.New(server.WithCodecs(protobuf.Codec()))
	check(grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, shelf{}) }))
	c, stop := start(srv)
	defer stop()
	carts := shop.NewCartsClient(grpcbridge.NewClient(c))
	cart, err := carts.Add(context.Background(), &shop.Item{Count: 3},
		grpcbridge.CallOptions(client.FailMode(tandem.Failover), client.Idempotent(), client.HashKey("cart 7")))
	fmt.Println(cart.GetTotal(), err)
	// Output:
	// 3 <nil>
}

// loud is a credential that is sent over encrypted connections only.
type loud struct{}

func (loud) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer x"}, nil
}

func (loud) RequireTransportSecurity() bool { return true }

var _ credentials.PerRPCCredentials = loud{}

// Interceptors of grpc-go, and options of all calls.
func ExampleClientOption() {
	srv := server.New(server.WithCodecs(protobuf.Codec()))
	check(grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, shelf{}) }))
	c, stop := start(srv)
	defer stop()
	carts := shop.NewCartsClient(grpcbridge.NewClient(c,
		grpcbridge.WithUnaryClientInterceptors(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			fmt.Println("call of", method)
			return invoker(ctx, method, req, reply, cc, opts...)
		}),
		grpcbridge.WithStreamClientInterceptors(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			fmt.Println("stream of", method)
			return streamer(ctx, desc, cc, method, opts...)
		}),
		grpcbridge.WithTransportSecurity(), // all connections have TLS, but for this example
		grpcbridge.WithDefaultCallOptions(grpc.PerRPCCredentials(loud{}))))
	_, err := carts.Add(context.Background(), new(shop.Item))
	fmt.Println(err)
	_, err = carts.Items(context.Background(), new(shop.Cart))
	fmt.Println(err)
	// Output:
	// call of /tandem.bridgetest.v1.Carts/Add
	// <nil>
	// stream of /tandem.bridgetest.v1.Carts/Items
	// <nil>
}

// A client and a handler that protoc-gen-connect-go has generated.
func ExampleRegisterHandler() {
	srv := server.New(server.WithCodecs(protobuf.Codec()))
	path, handler := shopconnect.NewCartsHandler(carts{})
	check(grpcbridge.RegisterHandler(srv, path, handler))
	c, stop := start(srv)
	defer stop()

	shop := shopconnect.NewCartsClient(grpcbridge.NewHTTPClient(c), "http://tandem")
	res, err := shop.Get(context.Background(), connect.NewRequest(item("tea")))
	fmt.Println(res.Msg.GetTotal(), err)
	// Output:
	// 3 <nil>
}

func item(name string) *shop.Item { return &shop.Item{Name: name} }
