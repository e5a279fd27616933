// Arpc is the peer of lesismal/arpc. The settings are those of the benchmark
// among its examples: pools for contexts, messages and buffers on both sides,
// and asynchronous responses, which means a goroutine a request. Writes are
// queued and batched and a call waits five seconds at most, as its README
// begins. Its log is off: it would land on the standard output that the harness
// reads.
package main

import (
	"net"
	"time"

	"github.com/lesismal/arpc"
	"github.com/lesismal/arpc/codec"
	"github.com/lesismal/arpc/log"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
)

const (
	method  = "Hello.Say"
	timeout = 5 * time.Second
)

// generated is an arpc codec of generated code.
type generated struct{}

func (generated) Marshal(v any) ([]byte, error)   { return message.Encode(nil, v) }
func (generated) Unmarshal(b []byte, v any) error { return message.Decode(b, v) }

func main() {
	log.SetLevel(log.LevelNone)
	codec.SetCodec(generated{})
	arpc.EnablePool(true)
	load.Main(load.System{Serve: serve, Dial: load.DialFor(dial)})
}

func serve(ln net.Listener) error {
	srv := arpc.NewServer()
	srv.Handler.EnablePool(true)
	srv.Handler.SetAsyncResponse(true)
	srv.Handler.Handle(method, say)
	return srv.Serve(ln)
}

// say answers. If a response can't be sent, the caller times out.
func say(ctx *arpc.Context) {
	m := new(message.BenchmarkMessage)
	if err := ctx.Bind(m); err != nil {
		_ = ctx.Error(err)
		return
	}
	message.Answer(m)
	_ = ctx.Write(m)
}

// caller is an arpc client, which is one connection.
type caller struct{ *arpc.Client }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Client.Call(method, req, reply, timeout)
}

// Close implements load.Caller.
//
//nolint:unparam // load.Caller wants the error
func (c caller) Close() error {
	c.Stop()
	return nil
}

func dial(addr string) (caller, error) {
	c, err := arpc.NewClient(func() (net.Conn, error) { return net.DialTimeout("tcp", addr, timeout) })
	return caller{c}, err
}
