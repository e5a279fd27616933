package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/server"
)

// The tests in this file are for feature requests of users of net/rpc, by the numbers of
// their issues at golang/go. #10929, JSON-RPC 2.0, is in package jsonrpc.

func dialed(t *testing.T, c *rpc.Client, err error) *rpc.Client {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestCustomNames16449 (#16449) registers methods under custom names.
func TestCustomNames16449(t *testing.T) {
	srv := newServer(t)
	err := srv.RegisterWith("math.v1/sums", Arith{}, server.ForMethod("Add", server.MethodName("add")), server.ForMethod("Div", server.MethodHidden()))
	if err != nil {
		t.Fatal(err)
	}
	c, err := rpc.Dial("tcp", accept(t, srv))
	c = dialed(t, c, err)
	var r Reply
	if err := c.Call("math.v1/sums.add", Args{1, 2}, &r); err != nil || r.C != 3 {
		t.Errorf("%v, %v", r, err)
	}
	for _, gone := range []string{"math.v1/sums.Add", "math.v1/sums.Div", "Arith.Add"} {
		if err := c.Call(gone, Args{1, 2}, &r); err == nil {
			t.Errorf("%s is served", gone)
		}
	}
}

// TestDialTimeouts15236 (#15236): dialing ends at its timeout, also when the server accepts
// and sends nothing.
func TestDialTimeouts15236(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections wait in its backlog
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	address := silent.Addr().String()
	const soon = 20 * time.Millisecond
	for name, dial := range map[string]func() (*rpc.Client, error){
		"HTTP":      func() (*rpc.Client, error) { return rpc.DialHTTPTimeout("tcp", address, soon) },
		"HTTP path": func() (*rpc.Client, error) { return rpc.DialHTTPPathTimeout("tcp", address, "/x", soon) },
		"TLS": func() (*rpc.Client, error) {
			return (&rpc.Dialer{Timeout: soon, TLS: &tls.Config{}}).Dial(t.Context(), "tcp", address)
		},
		"no time":     func() (*rpc.Client, error) { return rpc.DialTimeout("tcp", address, time.Nanosecond) },
		"its context": func() (*rpc.Client, error) { return new(rpc.Dialer).DialHTTP(short(t, soon), "tcp", address) },
	} {
		if _, err := dial(); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	srv := newServer(t)
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	t.Cleanup(web.Close)
	c, err := rpc.DialTimeout("tcp", accept(t, srv), time.Minute)
	callOne(t, dialed(t, c, err))
	c, err = rpc.DialHTTPPathTimeout("tcp", web.Listener.Addr().String(), "/any", time.Minute)
	callOne(t, dialed(t, c, err))
}

func short(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestOwnMux13395 (#13395) serves two servers on one mux, together with other handlers.
func TestOwnMux13395(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/other", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "other") })
	for _, name := range []string{"one", "two"} {
		srv := newServer(t)
		if err := srv.RegisterName(name, Arith{}); err != nil {
			t.Fatal(err)
		}
		srv.HandleHTTPOn(mux, "/rpc/"+name, "/debug/"+name)
	}
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	for _, name := range []string{"one", "two"} {
		c, err := rpc.DialHTTPPath("tcp", web.Listener.Addr().String(), "/rpc/"+name)
		c = dialed(t, c, err)
		var r Reply
		if err := c.Call(name+".Add", Args{1, 2}, &r); err != nil || r.C != 3 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		if page := get(t, web.URL+"/debug/"+name); !strings.Contains(page, "Service "+name) {
			t.Errorf("%s", page)
		}
	}
	if page := get(t, web.URL+"/other"); page != "other" {
		t.Error(page)
	}
	resp, err := http.Get(web.URL + "/rpc/one")
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if _, err := rpc.DialHTTPPath("tcp", web.Listener.Addr().String(), "/rpc/three"); err == nil || !strings.Contains(err.Error(), "unexpected HTTP response: 404") {
		t.Errorf("a path that nobody serves: %v", err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// TestHTTPS7946 (#7946) calls over HTTPS and over TLS; a server with an unknown certificate is
// refused.
func TestHTTPS7946(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	srv := newServer(t)
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(srv)
	web.TLS = serverTLS
	web.StartTLS()
	t.Cleanup(web.Close)
	d := &rpc.Dialer{TLS: clientTLS, Timeout: time.Minute}
	c, err := d.DialHTTP(t.Context(), "tcp", web.Listener.Addr().String())
	callOne(t, dialed(t, c, err))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := acceptOn(t, srv, tls.NewListener(ln, serverTLS))
	c, err = d.Dial(t.Context(), "tcp", address)
	callOne(t, dialed(t, c, err))
	_, err = (&rpc.Dialer{TLS: &tls.Config{}}).Dial(t.Context(), "tcp", address)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("a server with an unknown certificate: %v", err)
	}
}

// TestAuthentication4591 (#4591): clients are authenticated before the arguments are decoded,
// over HTTP by the header of the CONNECT and over TLS by the client's certificate.
func TestAuthentication4591(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	serverTLS.ClientAuth = tls.VerifyClientCertIfGiven
	srv := newServer(t, server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			certified := call.Peer.TLS != nil && len(call.Peer.TLS.VerifiedChains) > 0
			if certified || call.Metadata.Get("authorization") == "Bearer sesame" {
				return next(ctx, call)
			}
			return tandem.Errorf(tandem.Unauthenticated, "who are you?")
		}
	}))
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(srv)
	web.TLS = serverTLS
	web.StartTLS()
	t.Cleanup(web.Close)
	nameless := clientTLS.Clone()
	nameless.Certificates = nil
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	for name, c := range map[string]struct {
		dialer rpc.Dialer
		passes bool
	}{
		"nothing":       {rpc.Dialer{TLS: nameless}, false},
		"a wrong token": {rpc.Dialer{TLS: nameless, Header: bearer("guess")}, false},
		"a token":       {rpc.Dialer{TLS: nameless, Header: bearer("sesame")}, true},
		"a certificate": {rpc.Dialer{TLS: clientTLS}, true},
	} {
		client, err := c.dialer.DialHTTP(t.Context(), "tcp", web.Listener.Addr().String())
		client = dialed(t, client, err)
		var r Reply
		err = client.Call("Arith.Mul", Args{6, 7}, &r)
		if c.passes && (err != nil || r.C != 42) || !c.passes && (err == nil || err.Error() != "unauthenticated: who are you?") {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	// Also without HTTP, whose server does the TLS handshake.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := acceptOn(t, srv, tls.NewListener(ln, serverTLS))
	certified, err := (&rpc.Dialer{TLS: clientTLS}).Dial(t.Context(), "tcp", address)
	callOne(t, dialed(t, certified, err))
	other, err := (&rpc.Dialer{TLS: nameless}).Dial(t.Context(), "tcp", address)
	if err := dialed(t, other, err).Call("Arith.Mul", Args{6, 7}, new(Reply)); err == nil {
		t.Error("a client without a certificate is accepted")
	}
	// Plain TCP can't carry a token, so the server refuses these clients.
	c, err := rpc.Dial("tcp", accept(t, srv))
	if err := dialed(t, c, err).Call("Arith.Mul", Args{6, 7}, new(Reply)); err == nil {
		t.Error("a client without credentials is accepted")
	}
}

// Where is a service that returns the caller's address.
type Where struct{}

func (Where) Am(ctx context.Context, _ string, reply *string) error {
	*reply = tandem.FromContext(ctx).Peer.Addr.String()
	return nil
}

// TestClientsAddress4584 (#4584): a method with a context can get the client's address.
func TestClientsAddress4584(t *testing.T) {
	srv := newServer(t)
	if err := srv.Register(Where{}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", accept(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	c := dialed(t, rpc.NewClient(conn), nil)
	var where string
	if err := c.Call("Where.Am", "I?", &where); err != nil || where != conn.LocalAddr().String() {
		t.Errorf("%q, %v, want %v", where, err, conn.LocalAddr())
	}
}

// TestAliases3615 (#3615) serves a service and a method under several names.
func TestAliases3615(t *testing.T) {
	srv := newServer(t)
	if err := errors.Join(srv.Register(Arith{}), srv.Alias("Sums", "Arith"), srv.Alias("Calc.Times", "Arith.Mul")); err != nil {
		t.Fatal(err)
	}
	c, err := rpc.Dial("tcp", accept(t, srv))
	c = dialed(t, c, err)
	for _, method := range []string{"Arith.Mul", "Sums.Mul", "Calc.Times"} {
		var r Reply
		if err := c.Call(method, Args{6, 7}, &r); err != nil || r.C != 42 {
			t.Errorf("%s: %v, %v", method, r, err)
		}
	}
}

// TestErrorTexts: the text of a method's error reaches the client unchanged, also if
// tandem has a code for the error; a [tandem.Error] is sent with the name of its code.
func TestErrorTexts(t *testing.T) {
	srv := newServer(t)
	if err := srv.Core().RegisterFunc("T.Fail", func(n int, _ *int) error {
		return []error{context.DeadlineExceeded, io.EOF, tandem.Errorf(tandem.NotFound, "no %d", n)}[n]
	}); err != nil {
		t.Fatal(err)
	}
	c, err := rpc.Dial("tcp", accept(t, srv))
	c = dialed(t, c, err)
	for n, want := range []string{"context deadline exceeded", "EOF", "not found: no 2"} {
		if err := c.Call("T.Fail", n, new(int)); err == nil || err.Error() != want {
			t.Errorf("%d: %v, want %q", n, err, want)
		}
	}
}
