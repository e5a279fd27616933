package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

const grpcMethod = "/faults.Lab/Echo"

// bytesCodec carries plain bytes over gRPC.
type bytesCodec struct{}

var _ encoding.Codec = bytesCodec{}

func (bytesCodec) Name() string { return "bytes" }

func (bytesCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no *[]byte", v)
	}
	return *b, nil
}

func (bytesCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is no *[]byte", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

func serveGRPC(h handler) backend {
	srv := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}))
	echo := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc's parameters
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		answer, err := h.echo(request)
		return &answer, err
	}
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "faults.Lab", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
	}, nil)
	return backend{serve: srv.Serve, stop: func(context.Context) error {
		srv.GracefulStop()
		return nil
	}}
}

type grpcCaller struct{ *grpc.ClientConn }

// dialGRPC returns a client as grpc-go makes it, with round_robin over the addresses.
func dialGRPC(p plan) (caller, error) {
	list := manual.NewBuilderWithScheme("faults")
	var state resolver.State
	for _, a := range p.Addrs {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: a})
	}
	list.InitialState(state)
	c, err := grpc.NewClient("faults:///servers",
		grpc.WithResolvers(list),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{})),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
	)
	return grpcCaller{c}, err
}

func (c grpcCaller) call(ctx context.Context, _ string, request []byte) ([]byte, error) {
	var answer []byte
	err := c.Invoke(ctx, grpcMethod, &request, &answer)
	return answer, err
}

func (grpcCaller) verdict(err error) (string, bool) {
	return strings.ToLower(status.Code(err).String()), false
}

func (c grpcCaller) close() { _ = c.Close() } // the process ends
