// Package hello is what the two peers of cloudwego/kitex share: the seeds'
// service, written by hand where kitex would generate it, and a client.
//
// The payload is kitex's own Protobuf. Its codec takes arguments and results
// that encode and decode themselves; ours do with the bench's generated code,
// straight into kitex's write buffer and straight out of its read buffer.
package hello

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/pkg/klog"
	"github.com/cloudwego/kitex/pkg/serviceinfo"
	"github.com/cloudwego/kitex/server"

	"github.com/tandem-rpc/tandem/bench/message"
)

const (
	service = "Hello"
	method  = "Say"
	// Kitex's own default of 50 ms is short for a thousand connections at once.
	connectTimeout = 5 * time.Second
)

// payload is the argument and the result of Say.
type payload struct{ m *message.BenchmarkMessage }

// Size and FastWrite are what kitex's codec prefers when it encodes.
func (p *payload) Size() int { return p.m.SizeVT() }

// FastWrite fills b, which has the size that Size returned. It cannot report an
// error; what it returns too little, the other side fails to decode.
func (p *payload) FastWrite(b []byte) int {
	n, _ := p.m.MarshalToSizedBufferVT(b)
	return n
}

// Marshal is there because kitex's codec asks for it; FastWrite goes first.
func (p *payload) Marshal(b []byte) ([]byte, error) { return message.AppendTo(b, p.m) }

// Unmarshal decodes into the caller's reply, or on a server into a new message.
func (p *payload) Unmarshal(b []byte) error {
	if p.m == nil {
		p.m = new(message.BenchmarkMessage)
	}
	return p.m.UnmarshalVT(b)
}

func info() *serviceinfo.ServiceInfo {
	newPayload := func() any { return new(payload) }
	return &serviceinfo.ServiceInfo{
		ServiceName:  service,
		HandlerType:  (*any)(nil),
		PayloadCodec: serviceinfo.Protobuf,
		Methods: map[string]serviceinfo.MethodInfo{
			method: serviceinfo.NewMethodInfo(say, newPayload, newPayload, false),
		},
	}
}

// handler is what kitex wants a pointer to; say needs nothing of it.
type handler struct{}

// say is the service's only method.
func say(_ context.Context, _, arg, result any) error {
	in, ok := arg.(*payload)
	out, ok2 := result.(*payload)
	if !ok || !ok2 {
		return fmt.Errorf("hello: called with a %T and a %T", arg, result)
	}
	message.Answer(in.m)
	out.m = in.m
	return nil
}

// Serve answers on ln.
func Serve(ln net.Listener, opts ...server.Option) error {
	klog.SetLevel(klog.LevelError)
	srv := server.NewServer(append(opts, server.WithListener(ln))...)
	if err := srv.RegisterService(info(), new(handler)); err != nil {
		return err
	}
	return srv.Run()
}

// Caller is a client with one connection.
type Caller struct{ kitex client.Client }

// Dial returns a Caller that has connected. Kitex connects when it first calls,
// so Dial makes a call.
func Dial(addr string, opts ...client.Option) (*Caller, error) {
	klog.SetLevel(klog.LevelError)
	c, err := client.NewClient(info(), append(opts,
		client.WithDestService(service),
		client.WithHostPorts(addr),
		client.WithConnectTimeout(connectTimeout))...)
	if err != nil {
		return nil, err
	}
	caller, reply := &Caller{c}, new(message.BenchmarkMessage)
	if err := caller.Call(message.New(), reply); err != nil {
		return nil, errors.Join(err, caller.Close())
	}
	return caller, message.Check(reply)
}

// Call makes a call.
func (c *Caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.kitex.Call(context.Background(), method, &payload{req}, &payload{reply})
}

// Close closes the connection.
func (c *Caller) Close() error {
	if closer, ok := c.kitex.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
