// Package jsonrpc tests our client with a JSON-RPC server of another project, over TCP
// and over HTTP.
package jsonrpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/handler"
	"github.com/creachadair/jrpc2/jhttp"
	jrpc2server "github.com/creachadair/jrpc2/server"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
)

type pair struct {
	A int `json:"a"`
	B int `json:"b"`
}

// methods are the methods of the server.
func methods(notes chan<- int) handler.Map {
	return handler.Map{
		"Sums.Add":  handler.New(func(_ context.Context, in pair) int { return in.A + in.B }),
		"Sums.All":  handler.New(func(_ context.Context, in []int) int { return len(in) }),
		"Sums.Sub":  handler.NewPos(func(_ context.Context, a, b int) int { return a - b }, "a", "b"),
		"Sums.Text": handler.New(func(_ context.Context, in []string) string { return strings.Join(in, "") }),
		"Sums.None": handler.New(func(context.Context) int { return 42 }),
		"Sums.Note": handler.New(func(_ context.Context, in []int) error {
			notes <- in[0]
			return nil
		}),
		"Sums.Fail": handler.New(func(context.Context) error {
			return jrpc2.Errorf(-32077, "no way").WithData("because")
		}),
		"Sums.Bad":  handler.New(func(context.Context) error { return errors.New("bad args") }),
		"Sums.Wait": handler.New(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
	}
}

// overTCP runs the server, with one message a line.
func overTCP(t *testing.T, notes chan<- int) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- jrpc2server.Loop(ctx, jrpc2server.NetAccepter(ln, channel.Line), jrpc2server.Static(methods(notes)),
			&jrpc2server.LoopOptions{ServerOptions: &jrpc2.ServerOptions{Concurrency: 16}})
	}()
	t.Cleanup(func() {
		ln.Close()
		cancel()
		<-ended
	})
	return ln.Addr().String()
}

// overHTTP runs the server behind a POST that needs the token.
func overHTTP(t *testing.T, notes chan<- int) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bridge := jhttp.NewBridge(methods(notes), &jhttp.BridgeOptions{Server: &jrpc2.ServerOptions{Concurrency: 16}})
	mux := http.NewServeMux()
	mux.Handle("/rpc", bridge)
	mux.HandleFunc("/guarded", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "bearer right" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		bridge.ServeHTTP(w, r)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-ended
		bridge.Close()
	})
	return ln.Addr().String()
}

func dial(t *testing.T, address string, p client.Protocol, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(p.Name()+"://"+address, append([]client.Option{client.WithProtocols(p), client.WithTimeout(time.Minute)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestOutward covers parameters by name and by position, notifications, errors and
// concurrent calls.
func TestOutward(t *testing.T) {
	notes := make(chan int, 1)
	for name, c := range map[string]*client.Client{
		"TCP":  dial(t, overTCP(t, notes), jsonrpc.Client()),
		"HTTP": dial(t, overHTTP(t, notes), jsonrpc.HTTPClient("/rpc")),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					for j := range 20 {
						sum, err := client.Invoke[int](ctx, c, "Sums.Add", &pair{i, j})
						if err != nil || *sum != i+j {
							t.Errorf("%d and %d: %v", i, j, err)
						}
					}
				})
			}
			wg.Wait()
			if n, err := client.Invoke[int](ctx, c, "Sums.All", []int{1, 2, 3}); err != nil || *n != 3 {
				t.Error(err)
			}
			if n, err := client.Invoke[int](ctx, c, "Sums.Sub", tandem.Args{7, 8}); err != nil || *n != -1 {
				t.Error(err)
			}
			if n, err := client.Invoke[int](ctx, c, "Sums.None", nil); err != nil || *n != 42 {
				t.Error(err)
			}
			text := strings.Repeat("x", 100<<10)
			if s, err := client.Invoke[string](ctx, c, "Sums.Text", text); err != nil || *s != text {
				t.Error(err)
			}
			if err := c.Notify(ctx, "Sums.Note", 42); err != nil {
				t.Error(err)
			} else if n := <-notes; n != 42 {
				t.Errorf("it noted %d", n)
			}
			for method, want := range map[string]struct {
				code tandem.Code
				text string
			}{
				"Sums.Fail": {tandem.Unknown, "no way: because"}, "Sums.Unheard": {tandem.Unimplemented, "not found"},
				"Sums.Bad": {tandem.Unknown, "bad args"},
			} {
				err := c.Call(ctx, method, nil, nil)
				if e := tandem.AsError(err); e == nil || !e.Remote || e.Code != want.code || !strings.Contains(e.Message, want.text) {
					t.Errorf("%s: %+v", method, err)
				}
			}
			if err := c.Call(ctx, "Sums.Wait", nil, nil, client.Timeout(100*time.Millisecond)); tandem.CodeOf(err) != tandem.DeadlineExceeded {
				t.Errorf("a deadline: %v", err)
			}
		})
	}
}

// The token is in the header of the request. Without it, or with another path, the error
// follows the HTTP status.
func TestHTTP(t *testing.T) {
	address := overHTTP(t, nil)
	c := dial(t, address, jsonrpc.HTTPClient("guarded"))
	if err := c.Call(t.Context(), "Sums.None", nil, nil); tandem.CodeOf(err) != tandem.Unauthenticated || !strings.Contains(err.Error(), "who are you?") {
		t.Errorf("no token: %v", err)
	}
	if _, err := client.Invoke[int](t.Context(), c, "Sums.None", nil, client.Metadata("authorization", "bearer right")); err != nil {
		t.Error(err)
	}
	elsewhere := dial(t, address, jsonrpc.HTTPClient("/elsewhere"))
	if err := elsewhere.Call(t.Context(), "Sums.None", nil, nil); tandem.CodeOf(err) != tandem.Unimplemented {
		t.Errorf("another path: %v", err)
	}
	small := dial(t, address, jsonrpc.HTTPClient("/rpc"), client.WithMaxMessage(1000))
	if err := small.Call(t.Context(), "Sums.Text", strings.Repeat("x", 20<<10), nil); tandem.CodeOf(err) != tandem.ResourceExhausted {
		t.Errorf("a large answer: %v", err)
	}
}

// A call to a server that is gone was not executed, and a later call reaches the server
// that has replaced it.
func TestGoneAndBack(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	run := func(ln net.Listener) *http.Server {
		bridge := jhttp.NewBridge(methods(nil), nil)
		srv := &http.Server{Handler: bridge, ReadHeaderTimeout: time.Minute}
		go srv.Serve(ln)
		t.Cleanup(func() { bridge.Close() })
		return srv
	}
	srv := run(ln)
	c := dial(t, address, jsonrpc.HTTPClient(""), client.WithConnections(client.Connections{Backoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}))
	if _, err := client.Invoke[int](t.Context(), c, "Sums.None", nil); err != nil {
		t.Fatal(err)
	}
	srv.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // until the client has noticed
		err := c.Call(t.Context(), "Sums.None", nil, nil)
		if err == nil {
			t.Fatal("nobody answered")
		}
		if !tandem.MayHaveExecuted(err) {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if ln, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer run(ln).Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // until the client has connected again
		_, err := client.Invoke[int](t.Context(), c, "Sums.None", nil)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
