// Package ours is tandem's side of the cells in which a client or a server of another framework meets
// tandem's: the option tandem-server of a peer makes it serve with tandem, tandem-client call with it.
package ours

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Options of a peer.
const (
	Server   = "tandem-server"
	Client   = "tandem-client"
	Deadline = "deadline" // each call has one
	Guarded  = "guarded"  // with tandem-server: metrics, traces of one call in a hundred, and credentials
	Stream   = "stream"   // a call is a message each way on a stream that stays open
)

// Token is the credential of [Guarded].
const Token = "bench"

func verify(_ context.Context, token string) (any, error) {
	if token != Token {
		return nil, fmt.Errorf("ours: the token is %q", token)
	}
	return "bench", nil
}

// Serve serves the method over rpcx and HTTP, with the defaults of a server.
func Serve(ln net.Listener, method string) error {
	opts := []server.Option{server.WithProtocols(rpcx.New(), web.New())}
	if load.Named().Has(Guarded) {
		opts = append(opts, server.WithPlugins(metrics.New(), trace.New(trace.Sample(0.01)), auth.New(auth.Bearer(verify))))
	}
	srv := server.New(opts...)
	err := server.Handle(srv, method, func(_ context.Context, m *message.BenchmarkMessage) (*message.BenchmarkMessage, error) {
		message.Answer(m)
		return m, nil
	}, server.MethodReuse())
	if err != nil {
		return err
	}
	if err := server.HandleStream(srv, method+Streaming, talk); err != nil {
		return err
	}
	return srv.ServeListener(ln)
}

// Streaming is what a method with streams has after its name.
const Streaming = "Often"

// talk answers the messages of a stream.
func talk(_ context.Context, s *tandem.Stream[message.BenchmarkMessage, message.BenchmarkMessage]) error {
	for {
		m, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		message.Answer(m)
		if err := s.Send(m); err != nil {
			return err
		}
	}
}

// Caller is a client of tandem with its defaults, on one connection, as the bench counts those.
type Caller struct {
	*client.Client

	Method string
}

// Call makes a call. It has the client's timeout of five seconds as its deadline.
func (c Caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Client.Call(context.Background(), c.Method, req, reply)
}

// Dial returns a client of a scheme, such as grpc.
func Dial(scheme, addr, method string) (load.Caller, error) {
	c, err := client.Dial(scheme+"://"+addr, client.WithProtocols(web.GRPC(), web.Connect()))
	if err != nil {
		return nil, fmt.Errorf("ours: %w", err)
	}
	return Caller{c, method}, nil
}
