package main

import (
	"net"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// BenchmarkPlugins is a call of the message, both sides in one process, with plugins. It
// is for profiles and allocations: times are those of two sides that share processors.
func BenchmarkPlugins(b *testing.B) {
	for _, name := range []string{"tandem", "tandem+metrics", "tandem+trace", "tandem+accesslog", "tandem+metrics+trace+accesslog"} {
		b.Run(strings.TrimPrefix(strings.TrimPrefix(name, "tandem"), "+"), func(b *testing.B) { benchmarkCall(b, optionsOf(name)) })
	}
}

// optionsOf are the options in a system's name.
func optionsOf(name string) options {
	o := options{load.Options{}}
	for _, option := range strings.Split(name, "+")[1:] {
		o.Options[option] = ""
	}
	return o
}

func benchmarkCall(b *testing.B, o options) {
	srv := server.New(o.withPlugins(nil)...)
	if err := handleSay(srv); err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("tcp://"+ln.Addr().String(), append(o.callWithPlugins(nil), client.WithCodec(codec.Generated()))...)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = c.Close()
		_ = srv.Close()
		<-served
	}()
	b.ReportAllocs()
	b.SetParallelism(50) //nolint:mnd // callers a processor
	b.RunParallel(func(pb *testing.PB) {
		request, reply := message.New(), new(message.BenchmarkMessage)
		for pb.Next() {
			if err := (caller{c}).Call(request, reply); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
