// Rpcx is the peer of smallnest/rpcx. The settings are those of its authors'
// own benchmark (rpcxio/rpcx-benchmark, rpcx_handler): a handler instead of a
// service called by reflection, a pool of 100 workers with a long queue, and no
// logging, which would also land on the standard output that the harness reads.
// The HTTP gateway and JSON-RPC on the same port are off: nothing here uses them.
package main

import (
	"context"
	"net"

	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/log"
	"github.com/smallnest/rpcx/protocol"
	"github.com/smallnest/rpcx/server"
	"github.com/smallnest/rpcx/share"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/bench/peers/ours"
)

// generated is the first serialize type that rpcx leaves free.
const generated = protocol.Thrift + 1

const (
	workers = 100
	queued  = 1000000
)

// codec is an rpcx codec of generated code.
type codec struct{}

func (codec) Encode(v any) ([]byte, error) { return message.Encode(nil, v) }
func (codec) Decode(b []byte, v any) error { return message.Decode(b, v) }

func main() {
	log.SetDummyLogger()
	share.RegisterCodec(generated, codec{})
	share.RegisterCodec(protocol.ProtoBuffer, codec{}) // which tandem knows
	load.Main(load.System{Serve: serve, Dial: load.DialFor(dial), Options: []string{ours.Server}})
}

func serve(ln net.Listener) error {
	if load.Named().Has(ours.Server) {
		return ours.Serve(ln, "Hello.Say")
	}
	srv := server.NewServer(server.WithPool(workers, queued))
	srv.DisableHTTPGateway = true
	srv.DisableJSONRPC = true
	srv.AddHandler("Hello", "Say", say)
	return srv.ServeListener("tcp", ln)
}

func say(ctx *server.Context) error {
	m := new(message.BenchmarkMessage)
	if err := ctx.Bind(m); err != nil {
		return err
	}
	message.Answer(m)
	return ctx.Write(m)
}

// caller is an rpcx client, which is one connection.
type caller struct{ *client.Client }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Client.Call(context.Background(), "Hello", "Say", req, reply)
}

func dial(addr string) (caller, error) {
	option := client.DefaultOption
	if option.SerializeType = generated; load.Named().Has(ours.Server) {
		option.SerializeType = protocol.ProtoBuffer
	}
	c := client.NewClient(option)
	return caller{c}, c.Connect("tcp", addr)
}
