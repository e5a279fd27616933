// Drpc is the peer of storj.io/drpc with its defaults: its documentation
// advises no settings, and its README says that its own benchmarks tune
// nothing. The encoding is the bench's generated code, through the interface
// that drpc's generator would fill (its option protolib), and appends to the
// buffers that drpc keeps.
//
// A connection carries one call at a time, so there is nothing to share.
package main

import (
	"context"
	"net"

	"storj.io/drpc"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcserver"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
)

const method = "/tandem.bench.Hello/Say"

func main() {
	load.Main(load.System{Serve: serve, Dial: load.DialFor(dial), Exclusive: true})
}

func serve(ln net.Listener) error {
	mux := drpcmux.New()
	if err := mux.Register(hello{}, description{}); err != nil {
		return err
	}
	return drpcserver.New(mux).Serve(context.Background(), ln)
}

// hello is the seeds' service.
type hello struct{}

func (hello) Say(_ context.Context, m *message.BenchmarkMessage) (*message.BenchmarkMessage, error) {
	message.Answer(m)
	return m, nil
}

// description is what protoc-gen-go-drpc would generate for hello.
type description struct{}

func (description) NumMethods() int { return 1 }

func (description) Method(n int) (string, drpc.Encoding, drpc.Receiver, any, bool) {
	return method, generated{}, receive, hello.Say, n == 0
}

func receive(srv any, ctx context.Context, in, _ any) (drpc.Message, error) { //nolint:revive // drpc.Receiver's parameters
	return srv.(hello).Say(ctx, in.(*message.BenchmarkMessage))
}

// caller is a drpc connection, for one goroutine.
type caller struct{ *drpcconn.Conn }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Invoke(context.Background(), method, generated{}, req, reply)
}

func dial(addr string) (caller, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return caller{}, err
	}
	return caller{drpcconn.New(conn)}, nil
}
