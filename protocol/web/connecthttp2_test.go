package web_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// versions counts the requests of both versions of HTTP that reach a server.
type versions struct{ one, two atomic.Int64 }

// beside has requests counted, and answers with the server's handler.
func (v *versions) beside(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			v.two.Add(1)
		} else {
			v.one.Add(1)
		}
		h.ServeHTTP(w, r)
	})
}

// dialConnectHTTP2 returns a client that knows that the server supports HTTP/2.
func dialConnectHTTP2(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.Dial("connect://"+address, client.WithProtocols(web.ConnectHTTP2()), client.WithTimeout(time.Minute), client.WithWait(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Calls of ConnectHTTP2 to a connect-go server without TLS are all made over HTTP/2, and those of Connect
// over HTTP/1.1.
func TestConnectByPriorKnowledge(t *testing.T) {
	var seen versions
	address := connectServer(t, seen.beside)
	c := dialConnectHTTP2(t, address)
	for range 20 {
		callTwice(t, c, "ab")
	}
	callTwice(t, c, strings.Repeat("x", 1<<20))
	failsAsSaid(t, c)
	if seen.one.Load() != 0 || seen.two.Load() < 23 {
		t.Errorf("%d requests over HTTP/1.1, %d over HTTP/2", seen.one.Load(), seen.two.Load())
	}
	callTwice(t, calls(t, "connect://"+address), "ab")
	if seen.one.Load() == 0 {
		t.Error("Connect makes its calls over HTTP/2, too")
	}
}

// A server that supports HTTP/1.1 only gets no call: the error says why.
func TestConnectByWrongKnowledge(t *testing.T) {
	old := httptest.NewServer(http.NotFoundHandler())
	defer old.Close()
	c := dialConnectHTTP2(t, old.Listener.Addr().String())
	err := c.Call(t.Context(), "test.v1.Texts.Twice", wrapperspb.String("x"), nil)
	if e := tandem.AsError(err); e == nil || e.Code != tandem.Unavailable || !e.NotExecuted || !strings.Contains(e.Message, "HTTP/1 only") {
		t.Errorf("%+v", e)
	}
}

// A client calls Connect servers without TLS over HTTP/2.
func ExampleConnectHTTP2() {
	srv := server.New(server.WithProtocols(web.New())) // or any Connect server with HTTP/2
	check(server.Handle(srv, "test.v1.Texts.Upper", func(_ context.Context, in *text) (*text, error) {
		return &text{Value: strings.ToUpper(in.GetValue())}, nil
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("connect://"+ln.Addr().String(), client.WithProtocols(web.ConnectHTTP2()))
	check(err)
	out, err := client.Invoke[text](context.Background(), c, "test.v1.Texts.Upper", &text{Value: "one"})
	check(err)
	fmt.Println(out.GetValue())
	check(c.Close())
	check(srv.Shutdown(context.Background()))
	<-served
	// Output: ONE
}
