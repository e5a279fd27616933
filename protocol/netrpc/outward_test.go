package netrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/rpc"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/server"
)

// Shapes has methods whose values are difficult for gob.
type Shapes struct{}

func (Shapes) Text(in string, out *string) error {
	*out = in
	return nil
}

func (Shapes) Count(in map[string][]Args, out *map[string]Reply) error {
	*out = map[string]Reply{}
	for k, list := range in {
		(*out)[k] = Reply{len(list)}
	}
	return nil
}

func (Shapes) Slow(d time.Duration, out *int) error {
	time.Sleep(d) // longer than the client's timeout
	return nil
}

// standard runs a server of the standard library, over TCP and over HTTP.
func standard(t *testing.T) (tcp, overHTTP string) {
	t.Helper()
	srv := rpc.NewServer()
	if err := errors.Join(srv.Register(Arith{}), srv.Register(Shapes{})); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { srv.ServeConn(c) })
		}
	})
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(rpc.DefaultRPCPath, srv)
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	wg.Go(func() { _ = hs.Serve(web) })
	t.Cleanup(func() {
		_ = ln.Close()
		_ = hs.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String(), web.Addr().String()
}

func outward(t *testing.T, target string, opts ...client.Option) *client.Client {
	t.Helper()
	all := []client.Option{client.WithProtocols(netrpc.Client(), netrpc.HTTPClient("", nil)), client.WithTimeout(time.Minute)}
	c, err := client.Dial(target, append(all, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Our client calls the standard library's server, over TCP and HTTP, with many concurrent
// calls, and types that are described once on each connection.
func TestCallsStandardServer(t *testing.T) {
	tcp, web := standard(t)
	for _, target := range []string{"netrpc://" + tcp, "netrpc+http://" + web} {
		c := outward(t, target)
		for method, want := range map[string]*tandem.Error{
			"Arith.Div":     tandem.Errorf(tandem.Unknown, "divide by zero"),
			"Arith.Unheard": tandem.Errorf(tandem.Unimplemented, "rpc: can't find method Arith.Unheard"),
			"Nobody.Add":    tandem.Errorf(tandem.Unimplemented, "rpc: can't find service Nobody.Add"),
			"Add":           tandem.Errorf(tandem.Unknown, "rpc: service/method request ill-formed: Add"),
		} {
			err := c.Call(t.Context(), method, Args{1, 0}, nil)
			if e := tandem.AsError(err); e == nil || e.Error() != want.Error() || !e.Remote {
				t.Errorf("%s: %v", method, err)
			}
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { callShapes(t, c, i) })
		}
		wg.Wait()
		if err := c.Notify(t.Context(), "Arith.Add", Args{1, 2}); err != nil {
			t.Error(err)
		}
		if err := c.Call(t.Context(), "Arith.Add", tandem.Args{}, nil); err != nil {
			t.Error("no argument:", err)
		}
	}
}

func callShapes(t *testing.T, c *client.Client, i int) {
	t.Helper()
	r, err := client.Invoke[Reply](t.Context(), c, "Arith.Add", Args{i, 1})
	if err != nil || r.C != i+1 {
		t.Errorf("%v, %v", r, err)
	}
	r, err = client.Invoke[Reply](t.Context(), c, "Arith.Scan", fmt.Sprint(i))
	if err != nil || r.C != i {
		t.Errorf("%v, %v", r, err)
	}
	counts, err := client.Invoke[map[string]Reply](t.Context(), c, "Shapes.Count", map[string][]Args{"a": make([]Args, i)})
	if err != nil || (*counts)["a"].C != i {
		t.Errorf("%v, %v", counts, err)
	}
	text := strings.Repeat("x", i<<12)
	s, err := client.Invoke[string](t.Context(), c, "Shapes.Text", text)
	if err != nil || *s != text {
		t.Errorf("%d bytes: %v", len(text), err)
	}
}

// A message that net/rpc can't carry, or that is too large, is an error of its call.
func TestOutwardRefusals(t *testing.T) {
	tcp, web := standard(t)
	c := outward(t, "netrpc://"+tcp, client.WithMaxMessage(1000), client.WithCodec(nil, codec.JSON()))
	for want, err := range map[string]error{
		`netrpc does not carry codec "json"`: c.Call(t.Context(), "Arith.Add", Args{}, nil, client.Codec("json")),
		"2 arguments":                        c.Call(t.Context(), "Arith.Add", tandem.Args{1, 2}, nil),
		"beyond the limit":                   c.Call(t.Context(), "Shapes.Text", strings.Repeat("x", 2000), nil),
		"method's name":                      c.Call(t.Context(), strings.Repeat("x", 5000), 1, nil),
		"deadline":                           c.Call(t.Context(), "Shapes.Slow", 2*time.Second, nil, client.Timeout(20*time.Millisecond)),
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r, err := client.Invoke[Reply](t.Context(), c, "Arith.Add", Args{6, 7})
	if err != nil || r.C != 13 {
		t.Errorf("after all: %v, %v", r, err)
	}
	p, err := client.Dial("netrpc+http://"+web, client.WithProtocols(netrpc.HTTPClient("/elsewhere", nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Call(t.Context(), "Arith.Add", Args{}, nil); err == nil || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("another path: %v", err)
	}
}

// Our client calls our own server, whose interceptors get the header of the CONNECT.
func TestOutwardToOurs(t *testing.T) {
	_, address := serve(t, func(srv *server.Server) error { return errors.Join(srv.Register(Arith{}), srv.Register(Shapes{})) },
		server.WithInterceptors(func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				if token := call.Metadata.Get("authorization"); token != "bearer right" {
					return tandem.Errorf(tandem.Unauthenticated, "token %q", token)
				}
				return next(ctx, call)
			}
		}))
	header := http.Header{"Authorization": {"bearer right"}}
	c, err := client.Dial("netrpc+http://"+address, client.WithProtocols(netrpc.HTTPClient("", header)), client.WithTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	callShapes(t, c, 7)
	without := outward(t, "netrpc://"+address)
	if err := without.Call(t.Context(), "Arith.Add", Args{}, nil); err == nil || !strings.Contains(err.Error(), `unauthenticated: token ""`) {
		t.Error(err)
	}
}
