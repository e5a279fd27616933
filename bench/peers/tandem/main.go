// Tandem is the peer of tandem itself, with the same generated code as the
// others.
package main

import (
	"context"
	"net"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

func main() {
	load.Main(load.System{Serve: serve, Dial: load.DialFor(dial)})
}

func serve(ln net.Listener) error {
	srv := server.New()
	err := server.Handle(srv, "Hello.Say", func(_ context.Context, m *message.BenchmarkMessage) (*message.BenchmarkMessage, error) {
		message.Answer(m)
		return m, nil
	}, server.MethodReuse())
	if err != nil {
		return err
	}
	return srv.ServeListener(ln)
}

// caller is a client with its defaults, the deadline of five seconds included.
type caller struct{ *client.Client }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Client.Call(context.Background(), "Hello.Say", req, reply)
}

func dial(addr string) (caller, error) {
	c, err := client.Dial("tcp://"+addr, client.WithCodec(codec.Generated()))
	return caller{c}, err
}
