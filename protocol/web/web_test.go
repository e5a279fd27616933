package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// patience is the time limit for events that a test waits for.
const patience = time.Minute

// webTest is a server on an in-memory network, with HTTP clients for it.
type webTest struct {
	*testing.T

	srv *server.Server
	net *transport.Memory
	h1  *http.Client
	h2  *http.Client // HTTP/2 by prior knowledge
}

func newWebTest(t *testing.T, protocol server.Protocol, opts ...server.Option) *webTest {
	t.Helper()
	w := &webTest{T: t, net: transport.NewMemory()}
	w.srv = server.New(append([]server.Option{server.WithProtocols(protocol), server.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	ln, err := w.net.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.srv.ServeListener(ln) }()
	w.h1, w.h2 = w.client((*http.Protocols).SetHTTP1), w.client((*http.Protocols).SetUnencryptedHTTP2)
	t.Cleanup(func() {
		w.h1.CloseIdleConnections()
		w.h2.CloseIdleConnections()
		_ = w.srv.Close()
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return w
}

func (w *webTest) client(speaks func(*http.Protocols, bool)) *http.Client {
	t := &http.Transport{
		Protocols:   new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.net.Dial(ctx, "a") },
	}
	speaks(t.Protocols, true)
	return &http.Client{Transport: t, Timeout: patience}
}

func (w *webTest) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// answer is a response that has been read.
type answer struct {
	StatusCode int
	Proto      string
	Header     http.Header
	Body       string
	Close      bool // the response announces the end of the connection
}

// do makes a request; what is "POST /path".
func (w *webTest) do(c *http.Client, what, contentType, body string) answer {
	w.Helper()
	method, path, _ := strings.Cut(what, " ")
	req, err := http.NewRequestWithContext(w.Context(), method, "http://tandem.test"+path, strings.NewReader(body))
	w.must(err)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := c.Do(req)
	w.must(err)
	b, err := io.ReadAll(res.Body)
	w.must(err)
	w.must(res.Body.Close())
	return answer{res.StatusCode, res.Proto, res.Header, string(b), res.Close}
}

type Pair struct{ A, B int }

// Plain has a field of each kind that a query can set.
type Plain struct {
	S      string    `json:"s"`
	N      []int     `json:"n"`
	T      time.Time `json:"t"`
	P      *bool     `json:"p"`
	B      []byte    `json:"b"`
	Nested *Pair     `json:"nested"`
}

type arith struct{}

func (arith) Mul(args *Pair, reply *int) error {
	*reply = args.A * args.B
	return nil
}

func (arith) Div(_ context.Context, a, b int) (quo, rem int, err error) {
	if b == 0 {
		return 0, 0, tandem.Errorf(tandem.InvalidArgument, "divide by zero")
	}
	return a / b, a % b, nil
}

func (arith) Nothing() error { return nil }

func (arith) Fail(code int) error { return &tandem.Error{Code: tandem.Code(code), Message: "as asked"} }

func (arith) Panic(int) error { panic("no") }

const asJSON = "application/json"

func TestJSON(t *testing.T) {
	w := newWebTest(t, web.New())
	w.must(w.srv.RegisterName("Arith", arith{}, server.ForMethod("Mul", server.MethodSafe())))
	w.must(w.srv.RegisterFunc("Len", func(s string) int { return len(s) }))
	w.must(w.srv.RegisterFunc("Plain", func(p Plain) (Plain, error) { return p, nil }, server.MethodSafe()))
	w.must(w.srv.RegisterFunc("Value", func(v *descriptorpb.EnumValueDescriptorProto) (string, error) {
		return fmt.Sprintf("%s=%d", v.GetName(), v.GetNumber()), nil
	}, server.MethodSafe()))
	for _, c := range []struct {
		what, contentType, body string
		status                  int
		want                    string
	}{
		{"POST /Arith/Mul", asJSON, `{"A":6,"B":7}`, 200, "42"},
		{"POST /Arith/Mul", "application/json; charset=utf-8", `{"A":6,"B":7}`, 200, "42"},
		{"POST /Arith/Div", asJSON, `[7,2]`, 200, "[3,1]"},
		{"POST /Arith/Nothing", asJSON, ``, 200, "{}"},
		{"POST /Arith/Nothing", asJSON, `{}`, 200, "{}"},
		{"POST /Len", asJSON, `"four"`, 200, "4"},
		{"GET /Arith/Mul?message=%7B%22A%22:6,%22B%22:7%7D", "", "", 200, "42"},
		{"GET /Arith/Mul?connect=v1&encoding=json&message=%7B%22A%22:6,%22B%22:7%7D", "", "", 200, "42"},
		{"GET /Arith/Mul", "", "", 200, "0"},
		{"GET /Arith/Mul?A=6&B=7", "", "", 200, "42"},
		{"GET /Arith/Mul?connect=v1&encoding=json&a=6&b=7", "", "", 200, "42"},
		{"GET /Arith/Mul?A=6&C=7", "", "", 400, `{"code":"invalid_argument","message":"arguments of Arith.Mul: field \"C\" of the query: the argument has no such field"}`},
		{"GET /Arith/Mul?A=six", "", "", 400, `{"code":"invalid_argument","message":"arguments of Arith.Mul: field \"A\" of the query: \"six\" is neither a number nor a Boolean"}`},
		{"GET /Arith/Mul?A=6&A=7", "", "", 400, `{"code":"invalid_argument","message":"arguments of Arith.Mul: field \"A\" of the query: it has 2 values, one is wanted"}`},
		{"GET /Plain?s=42&n=1&n=2&t=2026-11-23T00:00:00Z&p=false&b=aGk=", "", "", 200, `{"s":"42","n":[1,2],"t":"2026-11-23T00:00:00Z","p":false,"b":"aGk=","nested":null}`},
		{"GET /Plain?nested=1", "", "", 400, `{"code":"invalid_argument","message":"arguments of Plain: field \"nested\" of the query: it is no text, number or Boolean, nor a list of them: send ?message={…}"}`},
		{"GET /Value?nothing=1", "", "", 400, `{"code":"invalid_argument","message":"arguments of Value: field \"nothing\" of the query: the argument has no such field"}`},
		{"GET /Value?name=42&number=42", "", "", 200, `"42=42"`},
		{"GET /Value?options=42", "", "", 400, `{"code":"invalid_argument","message":"arguments of Value: field \"options\" of the query: it is no text, number or Boolean, nor a list of them: send ?message={…}"}`},

		{"GET /Arith/Div?message=[1,1]", "", "", 405, `{"code":"unknown","message":"GET: method Arith.Div is called by POST","status":405,"title":"Method Not Allowed"}`},
		{"PUT /Arith/Mul", asJSON, "", 405, `{"code":"unknown","message":"PUT: method Arith.Mul is called by GET, POST","status":405,"title":"Method Not Allowed"}`},
		{"POST /Arith/Div", asJSON, `[7,0]`, 400, `{"code":"invalid_argument","message":"divide by zero"}`},
		{"POST /Arith/Div", asJSON, `[7]`, 400, `{"code":"invalid_argument","message":"arguments of Arith.Div: there are 1 arguments, 2 are wanted"}`},
		{"POST /Arith/Nothing", asJSON, `[7]`, 400, `{"code":"invalid_argument","message":"arguments of Arith.Nothing: there are arguments, and none are wanted"}`},
		{"POST /Arith/Mul", asJSON, ``, 400, `{"code":"invalid_argument","message":"arguments of Arith.Mul: there is no JSON"}`},
		{"POST /Arith/Fail", asJSON, `5`, 404, `{"code":"not_found","message":"as asked"}`},
		{"POST /Arith/Fail", asJSON, `16`, 401, `{"code":"unauthenticated","message":"as asked"}`},
		{"POST /Arith/Panic", asJSON, `16`, 500, `{"code":"internal","message":"method Arith.Panic panicked"}`},
		{"POST /Arith/Mod", asJSON, `1`, 404, `{"code":"unimplemented","message":"no method at \"/Arith/Mod\""}`},
		{"POST /Arith.Mul", asJSON, `1`, 404, `{"code":"unimplemented","message":"no method at \"/Arith.Mul\""}`},
		{"POST /Arith/Mul", "text/plain", `1`, 415,
			`{"code":"unknown","message":"Arith.Mul takes application/json, application/proto, application/grpc, application/grpc-web, application/grpc-web-text, not \"text/plain\"","status":415,"title":"Unsupported Media Type"}`},
	} {
		for name, client := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2} {
			got := w.do(client, c.what, c.contentType, c.body)
			if got.StatusCode != c.status || strings.TrimSpace(got.Body) != c.want || got.Proto != name {
				t.Errorf("%s %s %s: %d %s, want %d %s", got.Proto, c.what, c.body, got.StatusCode, got.Body, c.status, c.want)
			}
		}
	}
}

// A request to upgrade to HTTP/2 is answered over HTTP/1.1.
func TestUpgradeToHTTP2IsIgnored(t *testing.T) {
	w := newWebTest(t, web.New())
	w.must(w.srv.RegisterFunc("Len", func(s string) int { return len(s) }))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/Len", strings.NewReader(`"a"`))
	w.must(err)
	req.Header = http.Header{"Content-Type": {asJSON}, "Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABkAAQAAP__"}}
	res, err := w.h1.Do(req)
	w.must(err)
	b, err := io.ReadAll(res.Body)
	w.must(errors.Join(err, res.Body.Close()))
	if res.StatusCode != http.StatusOK || res.ProtoMajor != 1 || string(b) != "1" {
		t.Errorf("%s %s: %s", res.Proto, res.Status, b)
	}
}
