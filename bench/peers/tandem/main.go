// Tandem is the peer of tandem itself, with the same generated code as the
// others.
package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"

	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/plugin/accesslog"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/server"
)

func main() {
	watching := admin.New()
	o := options{load.Named(), watching, sync.OnceValue(func() error { return watching.Register(server.New()) })}
	load.Main(load.System{Serve: o.serve, Dial: o.dial, Options: []string{"tls", "metrics", "trace", "accesslog", "admin"}})
}

// options are the options in the name of the program. Without any, server and client have
// their defaults.
type options struct {
	load.Options

	watching *admin.Admin
	register func() error // of a client's process: it times calls only when somebody could ask
}

func (o options) serve(ln net.Listener) error {
	if o.Has("tls") {
		config, _, err := load.TLS()
		if err != nil {
			return err
		}
		ln = tls.NewListener(ln, config)
	}
	srv := server.New(server.WithPlugins(o.plugins(true)...))
	err := server.Handle(srv, "Hello.Say", func(_ context.Context, m *message.BenchmarkMessage) (*message.BenchmarkMessage, error) {
		message.Answer(m)
		return m, nil
	}, server.MethodReuse())
	if err != nil {
		return err
	}
	if o.Has("admin") {
		if err := o.watching.Register(srv); err != nil {
			return err
		}
	}
	return srv.ServeListener(ln)
}

// plugins returns the plugins that the options select: metrics, and tracing with one trace
// in a hundred sampled, on both sides, the admin API, and on the server a log of every call, which is
// formatted and then discarded: the disk's time is not tandem's.
func (o options) plugins(serving bool) (list []any) {
	if o.Has("metrics") {
		list = append(list, metrics.New())
	}
	if o.Has("trace") {
		list = append(list, trace.New(trace.Sample(0.01)))
	}
	if o.Has("admin") && serving {
		list = append(list, o.watching)
	}
	if o.Has("accesslog") && serving {
		list = append(list, accesslog.New(accesslog.To(io.Discard)))
	}
	return list
}

// caller is a client with its defaults, including the timeout of five seconds.
type caller struct{ *client.Client }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Client.Call(context.Background(), "Hello.Say", req, reply)
}

func (o options) dial(addr string) (load.Caller, error) {
	opts := []client.Option{client.WithCodec(codec.Generated()), client.WithPlugins(o.plugins(false)...)}
	if o.Has("tls") {
		_, config, err := load.TLS()
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.WithTLS(config))
	}
	dial := client.Dial
	if o.Has("admin") {
		dial = o.watching.Dial
		if err := o.register(); err != nil {
			return nil, err
		}
	}
	c, err := dial("tcp://"+addr, opts...)
	if err != nil {
		return nil, err
	}
	return caller{c}, nil
}
