package jsonrpc_test

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	stdjsonrpc "net/rpc/jsonrpc"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
)

type Pair struct{ A, B int }

// Sums is a service in net/rpc's shape.
type Sums struct{}

func (Sums) Add(in *Pair, sum *int) error {
	*sum = in.A + in.B
	return nil
}

func (Sums) Div(in *Pair, sum *int) error {
	if in.B == 0 {
		return errors.New("divide by zero")
	}
	*sum = in.A / in.B
	return nil
}

func (Sums) Text(in string, out *string) error {
	*out = in
	return nil
}

func (Sums) Len(in []int, n *int) error {
	*n = len(in)
	return nil
}

// standard runs a JSON-RPC 1.0 server of the standard library.
func standard(t *testing.T) string {
	t.Helper()
	srv := rpc.NewServer()
	if err := srv.Register(Sums{}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { srv.ServeCodec(stdjsonrpc.NewServerCodec(c)) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

func outward(t *testing.T, address string, p client.Protocol, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(p.Name()+"://"+address, append([]client.Option{client.WithProtocols(p), client.WithTimeout(time.Minute)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Our client calls the standard library's server, with many concurrent calls.
func TestCallsStandardServer(t *testing.T) {
	c := outward(t, standard(t), jsonrpc.Client(jsonrpc.Version1()))
	callSums(t, c)
	for method, want := range map[string]string{
		"Sums.Div":     "divide by zero",
		"Sums.Unheard": "rpc: can't find method Sums.Unheard",
	} {
		err := c.Call(t.Context(), method, &Pair{1, 0}, nil)
		if e := tandem.AsError(err); e == nil || e.Message != want || !e.Remote {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func callSums(t *testing.T, c *client.Client) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for j := range 20 {
				sum, err := client.Invoke[int](t.Context(), c, "Sums.Add", &Pair{i, j})
				if err != nil || *sum != i+j {
					t.Errorf("%d and %d: %v", i, j, err)
				}
			}
		})
	}
	wg.Wait()
	text := strings.Repeat("x", 200<<10)
	if s, err := client.Invoke[string](t.Context(), c, "Sums.Text", text); err != nil || *s != text {
		t.Error(err)
	}
	if n, err := client.Invoke[int](t.Context(), c, "Sums.Len", []int{7, 8, 9}); err != nil || *n != 3 {
		t.Error(err)
	}
	if err := c.Notify(t.Context(), "Sums.Add", &Pair{1, 2}); err != nil {
		t.Error(err)
	}
	if sum, err := client.Invoke[int](t.Context(), c, "Sums.Add", tandem.Args{&Pair{6, 7}}); err != nil || *sum != 13 {
		t.Error(err)
	}
}

// Our own server supports versions 2.0 and 1.0, and its codes reach our client.
func TestCallsOurServer(t *testing.T) {
	srv, address := serve(t)
	if err := srv.Register(Sums{}); err != nil {
		t.Fatal(err)
	}
	register(t, srv, "T.Sub", func(a, b int) int { return a - b })
	register(t, srv, "T.Nothing", func() {})
	register(t, srv, "T.Full", func(Pair) error { return tandem.Errorf(tandem.ResourceExhausted, "full up") })
	for name, opts := range map[string][]jsonrpc.ClientOption{"2.0": nil, "by position": {jsonrpc.ByPosition()}, "1.0": {jsonrpc.Version1()}} {
		t.Run(name, func(t *testing.T) {
			c := outward(t, address, jsonrpc.Client(opts...))
			callSums(t, c)
			if n, err := client.Invoke[int](t.Context(), c, "T.Sub", tandem.Args{7, 8}); err != nil || *n != -1 {
				t.Error(err)
			}
			if err := c.Call(t.Context(), "T.Nothing", nil, nil); err != nil {
				t.Error(err)
			}
			if name == "1.0" {
				return
			}
			for method, want := range map[string]tandem.Code{
				"T.Full": tandem.ResourceExhausted, "Sums.Unheard": tandem.Unimplemented, "Sums.Div": tandem.Unknown, "T.Sub": tandem.InvalidArgument,
			} {
				err := c.Call(t.Context(), method, &Pair{1, 0}, nil)
				if e := tandem.AsError(err); e == nil || e.Code != want || !e.Remote || len(e.Details) != 1 || e.Details[0].Type != jsonrpc.ErrorObject {
					t.Errorf("%s: %+v", method, err)
				}
			}
		})
	}
}

// A response that is too large, or not JSON, ends the connection; the next call uses
// another.
func TestHostileAnswers(t *testing.T) {
	for name, said := range map[string]string{
		"too large": `{"id":0,"result":"` + strings.Repeat("x", 10<<10) + `"}`, "no JSON": "what?\n", "an array": "[1]\n",
		"nobody's error": `{"id":null,"error":{"code":-32700,"message":"Parse error"}}`,
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			b := make([]byte, 1000)
			if _, err := c.Read(b); err == nil {
				_, _ = fmt.Fprint(c, `{"method":"theirs","id":0}`, `{"id":77,"result":1}`, said)
			}
			_, _ = c.Read(b) // until the client closes
		}()
		c := outward(t, ln.Addr().String(), jsonrpc.Client(), client.WithMaxMessage(1000))
		want := tandem.Unavailable
		switch name {
		case "too large":
			want = tandem.ResourceExhausted
		case "nobody's error": // a single call waits, so the error is its own
			want = tandem.InvalidArgument
		}
		if err := c.Call(t.Context(), "T.X", nil, nil); tandem.CodeOf(err) != want || !tandem.MayHaveExecuted(err) {
			t.Errorf("%s: %v", name, err)
		}
		<-ended
		_ = ln.Close()
	}
}
