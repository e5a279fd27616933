// Tandem is the peer of tandem itself, with the same generated code as the
// others. Its options are in options.go.
package main

import (
	"context"
	"net"
	"os"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// longRun is what a session takes for a long run of a handler, which an emulator makes of
// every run.
//
//go:linkname longRun github.com/tandem-rpc/tandem/internal/session.longRun
var longRun time.Duration

func main() {
	if os.Getenv(load.Emulated) != "" {
		longRun = time.Hour
	}
	o := options{load.Named()}
	load.Main(load.System{Serve: o.serve, Dial: o.dial, Options: known})
}

func (o options) serve(ln net.Listener) error {
	opts, ln, err := o.server(ln)
	if err != nil {
		return err
	}
	srv := server.New(opts...)
	if err := handleSay(srv); err != nil {
		return err
	}
	if err := o.handleBytes(srv); err != nil {
		return err
	}
	return srv.ServeListener(ln)
}

// handleSay serves the method that is measured.
func handleSay(srv *server.Server) error {
	return server.Handle(srv, "Hello.Say", func(_ context.Context, m *message.BenchmarkMessage) (*message.BenchmarkMessage, error) {
		message.Answer(m)
		return m, nil
	}, server.MethodReuse())
}

// caller is a client with its defaults, the deadline of five seconds included.
type caller struct{ *client.Client }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Client.Call(context.Background(), "Hello.Say", req, reply)
}

func (o options) dial(addr string) (load.Caller, error) {
	opts, err := o.client()
	if err != nil {
		return nil, err
	}
	c, err := client.Dial("tcp://"+addr, append(opts, client.WithCodec(codec.Generated()))...)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Has("bytes"):
		return load.CallBytes(bytesCaller{c, load.Payload(o.Bytes("bytes"))}, o.Bytes("bytes")), nil
	case o.Has("stream"):
		return openStream(c, o.Bytes("stream"))
	}
	return caller{c}, nil
}
