package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

const (
	grpcMethod       = "/faults.Lab/Echo"
	grpcQuickMethod  = "/faults.Lab/Quick"
	grpcStreamMethod = "/faults.Lab/Stream"
	grpcStallMethod  = "/faults.Lab/Stall"
)

// bytesCodec is a gRPC codec for messages of type *[]byte, which it does not encode.
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

func serveGRPC(p serverPlan, h handler) backend {
	opts := []grpc.ServerOption{grpc.ForceServerCodec(bytesCodec{})}
	if p.MaxAge > 0 {
		opts = append(opts, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: p.MaxAge}))
	}
	srv := grpc.NewServer(opts...)
	echo := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc's parameters
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		answer, err := h.serve(ctx, request)
		return &answer, err
	}
	quick := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // as above
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		answer, err := h.quick(request)
		return &answer, err
	}
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "faults.Lab", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}, {MethodName: "Quick", Handler: quick}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Stream", Handler: h.grpcStream, ServerStreams: true, ClientStreams: true},
			{StreamName: "Stall", Handler: grpcStall, ServerStreams: true, ClientStreams: true},
		},
	}, nil)
	return backend{serve: srv.Serve, stop: func(context.Context) error {
		srv.GracefulStop()
		return nil
	}}
}

// grpcStream answers each message of a stream. The stream counts as one execution.
func (h handler) grpcStream(_ any, s grpc.ServerStream) error {
	for first := true; ; first = false {
		var request []byte
		switch err := s.RecvMsg(&request); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		answer := request[:answerSize]
		if first {
			var err error
			if answer, err = h.echo(request); err != nil {
				return err
			}
		}
		if err := s.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// grpcStall sends messages until the client ends the stream.
func grpcStall(_ any, s grpc.ServerStream) error {
	message := make([]byte, stallSize)
	for {
		if err := s.SendMsg(&message); err != nil {
			return err
		}
	}
}

type grpcCaller struct {
	*grpc.ClientConn
	plan plan
}

// dialGRPC returns a client with grpc-go's defaults, except round_robin over the addresses.
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
	return grpcCaller{c, p}, err
}

func (c grpcCaller) call(ctx context.Context, variant string, request []byte) ([]byte, error) {
	switch variant {
	case variantStream:
		return c.stream(ctx, request)
	case variantFresh:
		return callFresh(ctx, c.plan, request)
	}
	method := grpcMethod
	if variant == variantQuick {
		method = grpcQuickMethod
	}
	var answer []byte
	err := c.Invoke(ctx, method, &request, &answer)
	return answer, err
}

// stream exchanges streamMessages messages over 2 s.
func (c grpcCaller) stream(ctx context.Context, request []byte) ([]byte, error) {
	s, err := c.open(ctx, grpcStreamMethod)
	if err != nil {
		return nil, err
	}
	var answer []byte
	for range streamMessages {
		if err := s.SendMsg(&request); err != nil {
			return nil, errors.Join(err, s.RecvMsg(&answer)) // RecvMsg returns the stream's error
		}
		if err := s.RecvMsg(&answer); err != nil {
			return nil, err
		}
		time.Sleep(2 * time.Second / streamMessages)
	}
	if err := s.CloseSend(); err != nil {
		return nil, err
	}
	var more []byte
	if err := s.RecvMsg(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("a stream that should have ended: %w", err)
	}
	return answer, nil
}

func (c grpcCaller) open(ctx context.Context, method string) (grpc.ClientStream, error) {
	return c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
}

func (c grpcCaller) stall(ctx context.Context) error {
	s, err := c.open(ctx, grpcStallMethod)
	if err != nil {
		return err
	}
	request := make([]byte, requestHead)
	return s.SendMsg(&request)
}

func (grpcCaller) verdict(err error) (string, bool) {
	return strings.ToLower(status.Code(err).String()), false
}

func (c grpcCaller) close() { _ = c.Close() } // the process ends
