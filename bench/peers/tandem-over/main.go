// Tandem-over is the peer of tandem over its other transports: its option names the
// transport of calls. It is separate from the peer tandem so that tandem is built without
// their modules.
package main

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func main() {
	o := load.Named()
	dialer := sync.OnceValues(func() (tandem.Transport, error) { return carrier(o, transport.TCP()) }) // for all connections
	load.Main(load.System{
		Serve:   func(ln net.Listener) error { return serve(o, ln) },
		Dial:    func(addr string) (load.Caller, error) { return dial(o, dialer, addr) },
		Options: []string{"websocket", "quic", "kcp", "unix", "nbio"},
	})
}

func serve(o load.Options, ln net.Listener) error {
	t, err := carrier(o, bound{transport.TCP(), ln})
	if err != nil {
		return err
	}
	own, err := t.Listen(context.Background(), address(o, ln.Addr().String()))
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

func dial(o load.Options, dialer func() (tandem.Transport, error), addr string) (load.Caller, error) {
	t, err := dialer()
	if err != nil {
		return nil, err
	}
	c, err := client.Dial("over://"+address(o, addr), client.WithTransport("over", t), client.WithCodec(codec.Generated()))
	if err != nil {
		return nil, err
	}
	return caller{c}, nil
}
