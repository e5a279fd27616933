package client

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/call"
)

// Invoke makes a unary call and returns its response as a new Reply.
func Invoke[Reply any](ctx context.Context, c tandem.Caller, method string, args any, opts ...tandem.CallOption) (*Reply, error) {
	reply := new(Reply)
	if err := c.Call(ctx, method, args, reply, opts...); err != nil {
		return nil, err
	}
	return reply, nil
}

// Method returns a typed function that calls the method.
func Method[Args, Reply any](c tandem.Caller, method string, opts ...tandem.CallOption) func(context.Context, *Args) (*Reply, error) {
	return func(ctx context.Context, args *Args) (*Reply, error) {
		return Invoke[Reply](ctx, c, method, args, opts...)
	}
}

// Stream opens a stream in both directions: Out is sent, In received.
func Stream[Out, In any](ctx context.Context, c tandem.Caller, method string, opts ...tandem.CallOption) (*tandem.Stream[In, Out], error) {
	if codec.IsProto((*Out)(nil)) || codec.IsProto((*In)(nil)) {
		opts = append(slices.Clip(opts), call.FollowProto)
	}
	s, err := c.OpenStream(ctx, method, opts...)
	if err != nil {
		return nil, err
	}
	return &tandem.Stream[In, Out]{MessageStream: s}, nil
}

// ServerStream sends one message and returns the stream of responses; range over its All.
func ServerStream[Args, Item any](ctx context.Context, c tandem.Caller, method string, args *Args, opts ...tandem.CallOption) (*tandem.Stream[Item, Args], error) {
	s, err := Stream[Args, Item](ctx, c, method, opts...)
	if err != nil {
		return nil, err
	}
	if err := s.Send(args); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, s.CloseSend()
}

// ClientStream opens a stream of many messages to one response: Send them, then call
// [CloseAndRecv].
func ClientStream[Item, Reply any](ctx context.Context, c tandem.Caller, method string, opts ...tandem.CallOption) (*tandem.Stream[Reply, Item], error) {
	return Stream[Item, Reply](ctx, c, method, opts...)
}

// CloseAndRecv ends the sending half of a client stream, receives the response, and waits for
// the end of the stream: a method may fail after its response.
func CloseAndRecv[Reply, Item any](s *tandem.Stream[Reply, Item]) (*Reply, error) {
	if err := s.CloseSend(); err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	reply, err := s.Recv()
	if err != nil {
		return nil, err
	}
	if _, err := s.Recv(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return reply, nil
}
