// Grpc is the peer of grpc-go, without TLS and with the bench's generated code
// in place of the protobuf runtime's.
//
// Its documentation has no page on tuning; the settings come from its own
// benchmark and its options' documentation, for small messages and many calls:
//
//   - Buffers of 128 KiB to read and to write, as the peers of grpc-go's own
//     benchmark have (benchmark/worker). A process of 1000 connections pays
//     for the reading half with memory.
//   - As many stream workers as processors: the comment in NumStreamWorkers
//     found that number to perform best.
//   - A static connection window of 1 MiB. It turns off dynamic flow control,
//     which would send pings to estimate the bandwidth, and 500 calls of the
//     bench on a connection fit into it, which they don't into the usual 64 KiB.
//
// Shared write buffers are its default. Calls wait for no deadline, unless the option deadline
// is set, and nothing intercepts them. Package ours has the other options.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/bench/peers/ours"
)

const (
	service = "tandem.bench.Hello"
	method  = "Say"

	bufferSize = 128 << 10
	windowSize = 1 << 20

	connectTimeout = 10 * time.Second
	callTimeout    = 5 * time.Second
)

func main() {
	load.Main(load.System{
		Serve: serve, Dial: dialEither,
		Options: []string{ours.Server, ours.Client, ours.Deadline, ours.Guarded, ours.Stream, load.Large, load.Huge},
	})
}

func serve(ln net.Listener) error {
	if load.Named().Has(ours.Server) {
		return ours.Serve(ln, service+"."+method)
	}
	srv := grpc.NewServer(
		grpc.ForceServerCodecV2(generated{}),
		grpc.ReadBufferSize(bufferSize),
		grpc.WriteBufferSize(bufferSize),
		grpc.StaticConnWindowSize(windowSize),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))), //nolint:gosec // small
	)
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: method, Handler: say}},
		Streams:     []grpc.StreamDesc{talks},
	}, nil)
	return srv.Serve(ln)
}

// say is the handler that protoc-gen-go-grpc would generate, around message.Answer. The
// server has no interceptors.
func say(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc's parameters
	m := new(message.BenchmarkMessage)
	if err := decode(m); err != nil {
		return nil, err
	}
	message.Answer(m)
	return m, nil
}

// talks are streams in both directions.
var talks = grpc.StreamDesc{StreamName: method + ours.Streaming, Handler: talk, ServerStreams: true, ClientStreams: true}

// talk answers the messages of a stream.
func talk(_ any, s grpc.ServerStream) error {
	for {
		m := new(message.BenchmarkMessage)
		switch err := s.RecvMsg(m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		message.Answer(m)
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

// talker is a caller whose calls are messages on streams, of which it has as many as it has calls at
// the same time.
type talker struct {
	caller

	idle chan grpc.ClientStream
}

// mostIdle bounds the streams that a talker keeps.
const mostIdle = 1000

func (c talker) Call(req, reply *message.BenchmarkMessage) (err error) {
	var s grpc.ClientStream
	select {
	case s = <-c.idle:
	default:
		if s, err = c.NewStream(context.Background(), &talks, "/"+service+"/"+talks.StreamName); err != nil {
			return err
		}
	}
	if err := s.SendMsg(req); err != nil {
		return err
	}
	if err := s.RecvMsg(reply); err != nil {
		return err
	}
	select {
	case c.idle <- s:
		return nil
	default:
		return s.CloseSend()
	}
}

// caller is a client connection. It is safe for concurrent use.
type caller struct{ *grpc.ClientConn }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Invoke(context.Background(), "/"+service+"/"+method, req, reply)
}

// limited is a caller whose calls have a deadline, as tandem's have by default.
type limited struct {
	caller

	guarded bool // they have credentials
}

func (c limited) Call(req, reply *message.BenchmarkMessage) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if c.guarded {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+ours.Token)
	}
	return c.Invoke(ctx, "/"+service+"/"+method, req, reply)
}

func dialEither(addr string) (load.Caller, error) {
	if load.Named().Has(ours.Client) {
		return ours.Dial("grpc", addr, service+"."+method)
	}
	c, err := dial(addr)
	switch {
	case err != nil:
		return nil, err
	case load.Named().Has(ours.Stream):
		return talker{c, make(chan grpc.ClientStream, mostIdle)}, nil
	case load.Named().Has(ours.Deadline):
		return limited{c, load.Named().Has(ours.Guarded)}, nil
	}
	return c, nil
}

// dial returns when the connection is ready: by default a client connects with its first
// call.
func dial(addr string) (caller, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(generated{})),
		grpc.WithReadBufferSize(bufferSize),
		grpc.WithWriteBufferSize(bufferSize),
		grpc.WithStaticConnWindowSize(windowSize),
	)
	if err != nil {
		return caller{}, err
	}
	if err := connect(conn); err != nil {
		_ = conn.Close() // the first error is more useful
		return caller{}, fmt.Errorf("grpc: %s: %w", addr, err)
	}
	return caller{conn}, nil
}

// connect waits until conn is ready, and returns its first failure without a retry.
func connect(conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	conn.Connect()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return fmt.Errorf("no connection: %v", state)
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("still %v: %w", state, ctx.Err())
		}
	}
}
