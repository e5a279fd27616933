package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/jhttp"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
	"github.com/sourcegraph/jsonrpc2"
	sourcegraphws "github.com/sourcegraph/jsonrpc2/websocket"
)

// dialect has the functions to use a client of one of the libraries.
type dialect struct {
	call   func(ctx context.Context, result any, method string, params any) error
	notify func(ctx context.Context, method string, params any) error
	code   func(error) int
	named  bool                                      // it supports named parameters
	batch  func(ctx context.Context) ([]int, error)  // the differences of (42, 23) and (23, 42), the code of a missing method; nil if not supported
	user   func(ctx context.Context) (string, error) // the header X-User that the server got; nil if not supported
}

func TestGo(t *testing.T) {
	address := serve(t)
	for _, c := range []struct {
		name string
		dial func(t *testing.T, address string) dialect
	}{
		{"go-ethereum over HTTP", ethereumAt("http")},
		{"go-ethereum over WebSocket", ethereumAt("ws")},
		{"go-ethereum over TCP", ethereumTCP},
		{"sourcegraph over TCP", sourcegraphTCP},
		{"sourcegraph over WebSocket", sourcegraphSocket},
		{"jrpc2 over TCP", jrpc2TCP},
		{"jrpc2 over HTTP", jrpc2HTTP},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			count := &tally{T: t}
			conversation(ctx, count, c.dial(t, address))
			t.Logf("%s: %d of %d", c.name, count.passed, count.all)
		})
	}
}

// conversation makes every kind of call.
func conversation(ctx context.Context, c *tally, d dialect) {
	var n int
	var s string
	err := d.call(ctx, &n, "subtract", []any{42, 23})
	c.check("by position", err == nil && n == 19, n, err)
	if d.named {
		err = d.call(ctx, &n, "subtract", map[string]any{"subtrahend": 42, "minuend": 23})
		c.check("by name", err == nil && n == -19, n, err)
	}
	err = d.call(ctx, &n, "sum", []any{1, 2, 4})
	c.check("a list", err == nil && n == 7, n, err)
	err = d.call(ctx, &s, "join", []any{"a", "b"})
	c.check("several arguments", err == nil && s == "ab", s, err)
	err = d.call(ctx, &s, "missing", []any{})
	c.check("an error of the method", err != nil && d.code(err) == -32005 && strings.Contains(err.Error(), "it is not there"), err)
	err = d.call(ctx, &s, "nowhere", []any{})
	c.check("no such method", err != nil && d.code(err) == -32601, err)
	err = d.call(ctx, &s, "join", []any{1})
	c.check("wrong parameters", err != nil && d.code(err) == -32602, err)
	large := strings.Repeat("large ä ", 100_000)
	err = d.call(ctx, &s, "echo", []any{large})
	c.check("a large message", err == nil && s == large, len(s), err)
	err = concurrently(ctx, d)
	c.check("at the same time", err == nil, err)
	notifies(ctx, c, d)
	if d.batch != nil {
		got, err := d.batch(ctx)
		c.check("a batch", err == nil && fmt.Sprint(got) == "[19 -19 -32601]", got, err)
	}
	if d.user != nil {
		user, err := d.user(ctx)
		c.check("a header", err == nil && user == "me", user, err)
	}
}

// concurrently makes concurrent calls, and returns an error if one gets a wrong response.
func concurrently(ctx context.Context, d dialect) error {
	var all sync.WaitGroup
	failed := make(chan error, 100)
	for i := range 100 {
		all.Go(func() {
			var n int
			if err := d.call(ctx, &n, "subtract", []any{i, 1}); err != nil || n != i-1 {
				failed <- fmt.Errorf("%d - 1 is %d, %w", i, n, err)
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

// notifies sends a notification and waits until it has arrived.
func notifies(ctx context.Context, c *tally, d dialect) {
	var before, after int
	err := d.call(ctx, &before, "noted", []any{})
	if err == nil {
		err = d.notify(ctx, "note", []any{1})
	}
	for after = before; err == nil && after == before; {
		err = d.call(ctx, &after, "noted", []any{})
	}
	c.check("a notification", err == nil && after == before+1, before, after, err)
}

func ethereumAt(scheme string) func(*testing.T, string) dialect {
	return func(t *testing.T, address string) dialect {
		client, err := rpc.DialOptions(t.Context(), scheme+"://"+address+"/jsonrpc", rpc.WithHeader("X-User", "me"))
		d := ethereum(t, client, err)
		d.user = func(ctx context.Context) (user string, err error) {
			err = client.CallContext(ctx, &user, "user")
			return user, err
		}
		return d
	}
}

func ethereumTCP(t *testing.T, address string) dialect {
	conn := dialTCP(t, address)
	client, err := rpc.DialIO(t.Context(), conn, conn)
	d := ethereum(t, client, err)
	t.Cleanup(func() { _ = conn.Close() }) // before the client's Close, which waits for it
	return d
}

func ethereum(t *testing.T, client *rpc.Client, err error) dialect {
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return dialect{
		call: func(ctx context.Context, result any, method string, params any) error {
			return client.CallContext(ctx, result, method, params.([]any)...)
		},
		notify: func(ctx context.Context, method string, params any) error {
			err := client.Notify(ctx, method, params.([]any)...)
			if errors.Is(err, io.EOF) { // over HTTP it expects a body, which the response to a notification does not have
				err = nil
			}
			return err
		},
		code: ethereumCode,
		batch: func(ctx context.Context) ([]int, error) {
			var a, b, none int
			calls := []rpc.BatchElem{
				{Method: "subtract", Args: []any{42, 23}, Result: &a},
				{Method: "subtract", Args: []any{23, 42}, Result: &b},
				{Method: "nowhere", Result: &none},
			}
			err := client.BatchCallContext(ctx, calls)
			return []int{a, b, ethereumCode(calls[2].Error)}, err
		},
	}
}

func ethereumCode(err error) int {
	if e, ok := err.(rpc.Error); ok { //nolint:errorlint // it is not wrapped
		return e.ErrorCode()
	}
	return 0
}

func dialTCP(t *testing.T, address string) net.Conn {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// deaf is a handler that ignores calls of the server; there are none.
type deaf struct{}

func (deaf) Handle(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) {}

func sourcegraphTCP(t *testing.T, address string) dialect {
	return sourcegraph(t, jsonrpc2.NewPlainObjectStream(dialTCP(t, address)))
}

func sourcegraphSocket(t *testing.T, address string) dialect {
	conn, response, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+address+"/jsonrpc", map[string][]string{"X-User": {"me"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return sourcegraph(t, sourcegraphws.NewObjectStream(conn))
}

func sourcegraph(t *testing.T, stream jsonrpc2.ObjectStream) dialect {
	conn := jsonrpc2.NewConn(context.Background(), stream, deaf{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-conn.DisconnectNotify()
	})
	return dialect{
		call: func(ctx context.Context, result any, method string, params any) error {
			return conn.Call(ctx, method, params, result)
		},
		notify: func(ctx context.Context, method string, params any) error { return conn.Notify(ctx, method, params) },
		code: func(err error) int {
			if e, ok := err.(*jsonrpc2.Error); ok { //nolint:errorlint // it is not wrapped
				return int(e.Code)
			}
			return 0
		},
		named: true,
	}
}

func jrpc2TCP(t *testing.T, address string) dialect {
	conn := dialTCP(t, address)
	return creachadair(t, channel.Line(conn, conn))
}

func jrpc2HTTP(t *testing.T, address string) dialect {
	return creachadair(t, jhttp.NewChannel("http://"+address+"/jsonrpc", nil))
}

func creachadair(t *testing.T, ch channel.Channel) dialect {
	client := jrpc2.NewClient(ch, nil)
	t.Cleanup(func() { _ = client.Close() })
	code := func(err error) int { return int(jrpc2.ErrorCode(err)) }
	return dialect{
		call: func(ctx context.Context, result any, method string, params any) error {
			return client.CallResult(ctx, method, params, result)
		},
		notify: client.Notify,
		code:   code,
		named:  true,
		batch: func(ctx context.Context) ([]int, error) {
			answers, err := client.Batch(ctx, []jrpc2.Spec{
				{Method: "subtract", Params: []int{42, 23}},
				{Method: "subtract", Params: map[string]int{"minuend": 23, "subtrahend": 42}},
				{Method: "nowhere"},
			})
			if err != nil || len(answers) != 3 {
				return nil, fmt.Errorf("%d answers, %w", len(answers), err)
			}
			got := make([]int, 3)
			for i := range 2 {
				if err := answers[i].UnmarshalResult(&got[i]); err != nil {
					return nil, err
				}
			}
			got[2] = code(answers[2].Error())
			return got, nil
		},
	}
}
