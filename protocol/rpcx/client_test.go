package rpcx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

func dial(t testing.TB, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(target, append([]client.Option{client.WithProtocols(Client()), client.WithTimeout(time.Minute)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// echoes registers the methods that the client's tests call.
func echoes(srv *server.Server) error {
	return errors.Join(
		srv.Register(Arith{}),
		srv.RegisterFunc("T.Bytes", func(in []byte) []byte { return in }),
		srv.RegisterFunc("T.Text", func(in string) string { return in }),
		srv.RegisterFunc("T.Nothing", func() {}),
		srv.RegisterFunc("T.Wait", func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }),
		srv.RegisterFunc("T.Metadata", func(ctx context.Context, key string) string {
			c := tandem.FromContext(ctx)
			c.Trailer = tandem.Metadata{"back": {"yes"}}
			return strings.Join(c.Metadata.Values(key), "+")
		}),
	)
}

// Calls work with all codecs and shapes of methods that rpcx supports.
func TestClientCalls(t *testing.T) {
	_, address := serve(t, echoes)
	c := dial(t, "rpcx://"+address)
	ctx := t.Context()
	for _, name := range []string{"", "msgpack", "json"} {
		var r Reply
		opts := []tandem.CallOption{}
		if name != "" {
			opts = append(opts, client.Codec(name))
		}
		if err := c.Call(ctx, "Arith.Mul", &Args{6, 7}, &r, opts...); err != nil || r.C != 42 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	b, err := client.Invoke[[]byte](ctx, c, "T.Bytes", []byte("raw"), client.Codec("raw"))
	if err != nil || string(*b) != "raw" {
		t.Errorf("raw: %q, %v", *b, err)
	}
	if err := c.Call(ctx, "T.Nothing", tandem.Args{}, tandem.Results{}); err != nil {
		t.Error("no arguments:", err)
	}
	if s, err := client.Invoke[string](ctx, c, "T.Text", tandem.Args{"one"}); err != nil || *s != "one" {
		t.Errorf("one of several: %v, %v", *s, err)
	}
	if err := c.Notify(ctx, "Arith.Mul", &Args{1, 2}); err != nil {
		t.Error("one-way:", err)
	}
	var back tandem.Metadata
	s, err := client.Invoke[string](ctx, c, "T.Metadata", "authorization",
		client.Metadata("authorization", "bearer x"), client.Trailer(&back))
	if err != nil || *s != "bearer x" || back.Get("back") != "yes" {
		t.Errorf("metadata: %v, %v, %v", s, back, err)
	}
}

// A call that rpcx can't carry is refused before it is sent, with an error that says what
// to do.
func TestClientRefuses(t *testing.T) {
	_, address := serve(t, echoes)
	c := dial(t, "rpcx://"+address)
	for what, err := range map[string]error{
		`it carries msgpack, json, protobuf, raw`: c.Call(t.Context(), "T.Text", "x", nil, client.Codec("gob")),
		"is called with 2 arguments":              c.Call(t.Context(), "T.Text", tandem.Args{"x", "y"}, nil),
		"a method's name of":                      c.Call(t.Context(), strings.Repeat("m", 2000), "x", nil),
		"is a stream":                             stream(t, c),
	} {
		if !strings.Contains(fmt.Sprint(err), what) || tandem.MayHaveExecuted(err) {
			t.Errorf("%v; want %q", err, what)
		}
	}
	for _, target := range []string{"rpcx://", "rpcx://a:1?protocol=grpc", "rpcx://a", "grpc://a:1"} {
		if c, err := client.Dial(target, client.WithProtocols(Client())); err == nil {
			t.Errorf("%s is a target", target)
			_ = c.Close()
		}
	}
	if _, err := client.Dial("rpcx://a:1", client.WithProtocols(Client(), Client())); err == nil {
		t.Error("one protocol twice")
	}
}

func stream(t *testing.T, c *client.Client) error {
	t.Helper()
	_, err := c.OpenStream(t.Context(), "T.Stream")
	return err
}

// Errors of methods, and of a server that has no such method, have the server's text.
func TestClientErrors(t *testing.T) {
	_, address := serve(t, echoes)
	c := dial(t, "rpcx://"+address)
	for method, want := range map[string]string{
		"Arith.Fail":    "unknown: bad args",
		"Arith.Unheard": "unimplemented: rpcx: can't find method Unheard",
		"Nobody.Mul":    "unimplemented: rpcx: can't find service Nobody",
	} {
		err := c.Call(t.Context(), method, &Args{}, nil)
		if e := tandem.AsError(err); e == nil || !e.Remote || e.Error() != want || e.NotExecuted {
			t.Errorf("%s: %+v", method, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, "T.Wait", "x", nil); tandem.CodeOf(err) != tandem.DeadlineExceeded {
		t.Errorf("a deadline: %v", err)
	}
	if err := c.Call(t.Context(), "T.Text", "after", nil); err != nil {
		t.Error(err)
	}
}

// Large messages are sent both ways, with gzip and without; a response beyond the limit is
// an error of its call.
func TestClientLargeMessages(t *testing.T) {
	_, address := serve(t, echoes)
	for name, opts := range map[string][]client.Option{
		"plain": nil, "gzip": {client.WithCompression(client.Compression{Usual: compress.Gzip()})},
	} {
		c := dial(t, "rpcx://"+address, append(opts, client.WithMaxMessage(1<<20))...)
		for _, n := range []int{0, 1, 1024, 1025, 200 << 10, 1<<20 - 10} {
			text := strings.Repeat("x", n)
			got, err := client.Invoke[string](t.Context(), c, "T.Text", &text)
			if err != nil || *got != text {
				t.Errorf("%s, %d bytes: %v", name, n, err)
			}
		}
		text := strings.Repeat("x", 1<<20+100)
		if err := c.Call(t.Context(), "T.Text", &text, new(string)); err == nil {
			t.Errorf("%s: an answer beyond the limit", name)
		}
		if err := c.Call(t.Context(), "T.Text", "after", nil); err != nil {
			t.Error(err)
		}
	}
}

// Many calls run concurrently, over few connections.
func TestClientManyAtATime(t *testing.T) {
	_, a := serve(t, echoes)
	_, b := serve(t, echoes)
	c := dial(t, "rpcx://"+a+","+b+"?weight=3,1", client.WithConnections(client.Connections{PerInstance: 2}))
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for j := range 50 {
				r, err := client.Invoke[Reply](t.Context(), c, "Arith.Mul", &Args{i, j})
				if err != nil || r.C != i*j {
					t.Errorf("%d times %d: %v, %v", i, j, r, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// One client calls servers of both protocols that a list contains.
func TestMixedList(t *testing.T) {
	name := func(s string) func(*server.Server) error {
		return func(srv *server.Server) error { return srv.RegisterFunc("Who.Are", func() string { return s }) }
	}
	_, theirs := serve(t, name("rpcx"))
	_, ours := serve(t, name("tandem"))
	list := resolver{
		{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: theirs, Protocol: "rpcx"}}},
		{ID: "b", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: ours}}},
		{ID: "c", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: ours, Protocol: "unheard"}, {Transport: "tcp", Address: theirs, Protocol: "rpcx"}}},
	}
	c := dial(t, "list://x", client.WithResolver("list", list), client.WithCodec(codec.JSON()))
	for id, want := range map[string]string{"a": "rpcx", "b": "tandem", "c": "rpcx"} {
		got, err := client.Invoke[string](t.Context(), c, "Who.Are", tandem.Args{}, client.Instance(id))
		if err != nil || *got != want {
			t.Errorf("%s is %v, %v", id, got, err)
		}
	}
}

// resolver lists its elements.
type resolver []tandem.Instance

func (r resolver) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	update(registry.Snapshot{Instances: r, Revision: 1})
	<-ctx.Done()
	return ctx.Err()
}
