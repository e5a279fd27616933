package jsonrpc_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// serve runs a server with the protocol and returns its address.
func serve(t *testing.T, opts ...server.Option) (*server.Server, string) {
	t.Helper()
	overHTTP := web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata, jsonrpc.WithOrigins("pages.example")))
	srv := server.New(append(opts, server.WithProtocols(jsonrpc.New(), web.New(overHTTP)))...)
	ln, err := transport.TCP().Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return srv, ln.Addr().String()
}

func register(t *testing.T, srv *server.Server, name string, f any, opts ...server.MethodOption) {
	t.Helper()
	if err := srv.RegisterFunc(name, f, opts...); err != nil {
		t.Fatal(err)
	}
}

// line is a client that sends text and reads lines.
type line struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, address string) line {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // a busy machine takes more than 20 s to read a large message
		t.Fatal(err)
	}
	return line{t, c, bufio.NewReader(c)}
}

func (l line) send(text string) {
	l.t.Helper()
	if _, err := l.c.Write([]byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

func (l line) receive() string {
	l.t.Helper()
	text, err := l.r.ReadString('\n')
	if err != nil {
		l.t.Fatalf("%q, %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

// end ends sending, and checks that no more responses arrive.
func (l line) end() {
	l.t.Helper()
	if err := l.c.(*net.TCPConn).CloseWrite(); err != nil {
		l.t.Fatal(err)
	}
	if more, err := io.ReadAll(l.r); len(more) > 0 || err != nil {
		l.t.Errorf("after the last answer: %q, %v", more, err)
	}
}

// specification serves the methods of the specification's examples.
func specification(t *testing.T) string {
	t.Helper()
	srv, address := serve(t)
	register(t, srv, "subtract", func(p struct {
		Minuend    int `json:"minuend"`
		Subtrahend int `json:"subtrahend"`
	}) (int, error) {
		return p.Minuend - p.Subtrahend, nil
	})
	register(t, srv, "sum", func(list []int) (sum int) {
		for _, n := range list {
			sum += n
		}
		return sum
	})
	register(t, srv, "get_data", func() []any { return []any{"hello", 5} })
	register(t, srv, "update", func([]int) error { return nil })
	register(t, srv, "notify_hello", func(int) error { return nil })
	register(t, srv, "notify_sum", func([]int) error { return nil })
	return address
}

// examples are those of https://www.jsonrpc.org/specification, section 7, in its order. ""
// means no response.
var examples = []struct{ name, request, answer string }{
	{"positional", `{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}`, `{"jsonrpc": "2.0", "result": 19, "id": 1}`},
	{"positional, the other way", `{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}`, `{"jsonrpc": "2.0", "result": -19, "id": 2}`},
	{"named", `{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}`, `{"jsonrpc": "2.0", "result": 19, "id": 3}`},
	{"named, the other way", `{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}`, `{"jsonrpc": "2.0", "result": 19, "id": 4}`},
	{"notification", `{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}`, ``},
	{"notification of nothing", `{"jsonrpc": "2.0", "method": "foobar"}`, ``},
	{"no such method", `{"jsonrpc": "2.0", "method": "foobar", "id": "1"}`, `{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}`},
	{"not JSON", `{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]`, `{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}`},
	{"no request", `{"jsonrpc": "2.0", "method": 1, "params": "bar"}`, `{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}`},
	{"batch that is not JSON", `[
  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
  {"jsonrpc": "2.0", "method"
]`, `{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}`},
	{"empty batch", `[]`, `{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}`},
	{"invalid batch", `[1]`, `[{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}]`},
	{"invalid batch of three", `[1,2,3]`, `[
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}
]`},
	{"batch", `[
        {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
    ]`, `[
        {"jsonrpc": "2.0", "result": 7, "id": "1"},
        {"jsonrpc": "2.0", "result": 19, "id": "2"},
        {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
        {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"},
        {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}
    ]`},
	{"batch of notifications", `[
        {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
    ]`, ``},
}

// All examples run in turn on one connection, as lines. After each comes a call with a
// response of its own, which reveals a response that must not come.
func TestSpecification(t *testing.T) {
	c := dial(t, specification(t))
	for _, e := range examples {
		c.send(e.request + "\n")
		if e.answer != "" {
			if got, want := canonical(t, c.receive()), canonical(t, e.answer); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, want %v", e.name, got, want)
			}
		}
		c.send(`{"jsonrpc":"2.0","method":"sum","params":[2,3],"id":"next"}` + "\n")
		if got := c.receive(); got != `{"jsonrpc":"2.0","result":5,"id":"next"}` {
			t.Errorf("after %s: %s", e.name, got)
		}
	}
	c.end()
}

// canonical returns a response without the details of errors, which are ours, and with the
// responses of a batch sorted.
func canonical(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, a := range list {
		if e, ok := a.(map[string]any)["error"].(map[string]any); ok {
			delete(e, "data")
		}
	}
	slices.SortFunc(list, func(a, b any) int { return cmp.Compare(asText(a), asText(b)) })
	return v
}

func asText(v any) string { return fmt.Sprintf("%#v", v) }

// TestErrors checks the specification's errors, and the errors that ours become.
func TestErrors(t *testing.T) {
	srv, address := serve(t, server.WithMaxMessage(1000))
	for name, code := range map[string]tandem.Code{"invalid": tandem.InvalidArgument, "internal": tandem.Internal, "missing": tandem.NotFound, "unknown": tandem.Unknown} {
		register(t, srv, name, func() error { return tandem.Errorf(code, "as it is") })
	}
	register(t, srv, "plain", func() error { return net.ErrClosed })
	register(t, srv, "panics", func() error { panic("secret") })
	register(t, srv, "one", func(int) error { return nil })
	register(t, srv, "two", func(int, int) error { return nil })
	c := dial(t, address)
	for _, e := range []struct{ request, want string }{
		{`"method":"plain"`, `{"code":-32000,"message":"use of closed network connection"}`},
		{`"method":"unknown"`, `{"code":-32000,"message":"as it is"}`},
		{`"method":"missing"`, `{"code":-32005,"message":"as it is","data":"not found"}`},
		{`"method":"invalid"`, `{"code":-32602,"message":"Invalid params","data":"as it is"}`},
		{`"method":"internal"`, `{"code":-32603,"message":"Internal error","data":"as it is"}`},
		{`"method":"panics"`, `{"code":-32603,"message":"Internal error","data":"method panics panicked"}`},
		{`"method":"none"`, `{"code":-32601,"message":"Method not found","data":"rpc: service/method request ill-formed: none"}`},
		{`"method":"a.none"`, `{"code":-32601,"message":"Method not found","data":"rpc: can't find service a.none"}`},
		{`"method":"one"`, `{"code":-32602,"message":"Invalid params","data":"arguments of one: there are no params"}`},
		{`"method":"one","params":[]`, `{"code":-32602,"message":"Invalid params","data":"arguments of one: there are 0 params, one is wanted"}`},
		{`"method":"two","params":[1]`, `{"code":-32602,"message":"Invalid params","data":"arguments of two: there are 1 params, 2 are wanted"}`},
		{`"method":"two","params":{"a":1}`, `{"code":-32602,"message":"Invalid params","data":"arguments of two: the 2 parameters have no names: send an array"}`},
	} {
		c.send(`{"jsonrpc":"2.0",` + e.request + `,"id":1}`)
		want := `{"jsonrpc":"2.0","error":` + e.want + `,"id":1}`
		if got := c.receive(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", e.request, got, want)
		}
	}
	c.send(`{"jsonrpc":"2.0","method":"one","params":["` + strings.Repeat("x", 1000) + `"],"id":1}`)
	if got := c.receive(); !strings.Contains(got, `-32008`) || !strings.Contains(got, "at most 1000 bytes") {
		t.Errorf("too large: %s", got)
	}
}
