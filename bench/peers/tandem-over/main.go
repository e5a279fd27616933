// Tandem-over is the peer of tandem over its other transports: its option names the
// one that calls go over. It is apart from the peer tandem so that this needs none of
// their modules.
package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/kcp"
	"github.com/tandem-rpc/tandem/transport/quic"
	"github.com/tandem-rpc/tandem/transport/websocket"
)

func main() {
	o := load.Named()
	load.Main(load.System{
		Serve:   func(ln net.Listener) error { return serve(o, ln) },
		Dial:    func(addr string) (load.Caller, error) { return dial(o, addr) },
		Options: []string{"websocket", "quic", "kcp", "unix"},
	})
}

// carrier returns the transport that the option names, and where it listens for
// what the harness knows as addr: UDP has the same port, a socket its name.
// Without an option it is WebSocket.
func carrier(o load.Options, addr string) (tandem.Transport, string, error) {
	switch {
	case o.Has("unix"):
		_, port, err := net.SplitHostPort(addr)
		return transport.Unix(), filepath.Join(os.TempDir(), "tandem-bench-"+port), err
	case o.Has("kcp"):
		t, err := kcp.New()
		return t, addr, err
	case o.Has("quic"):
		t, err := overQUIC()
		return t, addr, err
	}
	return websocket.New(transport.TCP()), addr, nil
}

// overQUIC is both a server's and a client's.
func overQUIC() (tandem.Transport, error) {
	config, verify, err := load.TLS()
	if err != nil {
		return nil, err
	}
	config.RootCAs, config.ServerName = verify.RootCAs, verify.ServerName
	return quic.New(config)
}

func serve(o load.Options, ln net.Listener) error {
	t, addr, err := carrier(o, ln.Addr().String())
	if err != nil {
		return err
	}
	if err := ln.Close(); err != nil { // the port is the transport's now
		return err
	}
	own, err := t.Listen(context.Background(), addr)
	if err != nil {
		return err
	}
	srv := server.New()
	err = server.Handle(srv, "Hello.Say", func(_ context.Context, m *message.BenchmarkMessage) (*message.BenchmarkMessage, error) {
		message.Answer(m)
		return m, nil
	}, server.MethodReuse())
	return errors.Join(err, srv.ServeListener(own))
}

// caller is a client with its defaults.
type caller struct{ *client.Client }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Client.Call(context.Background(), "Hello.Say", req, reply)
}

func dial(o load.Options, addr string) (load.Caller, error) {
	t, addr, err := carrier(o, addr)
	if err != nil {
		return nil, err
	}
	c, err := client.Dial("over://"+addr, client.WithTransport("over", t), client.WithCodec(codec.Generated()))
	if err != nil {
		return nil, err
	}
	return caller{c}, nil
}
