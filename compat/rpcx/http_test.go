package rpcx_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"net/rpc/jsonrpc"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/compat/rpcx/clientselector"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/server"
)

// serveByHTTP serves the service as rpcx's programs do, and returns the address.
func serveByHTTP(t *testing.T, srv *rpcx.Server, path string) (address string) {
	t.Helper()
	if err := srv.RegisterName("Arith", new(Arith)); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeByHTTP(ln, path) }()
	t.Cleanup(func() {
		closeAll(t, srv)
		if err := <-ended; !errors.Is(err, server.ErrServerClosed) {
			t.Errorf("serving ended with %v", err)
		}
	})
	return ln.Addr().String()
}

// checkCalls makes calls with a net/rpc client, and closes it.
func checkCalls(t *testing.T, what string, c *rpc.Client, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	var reply Reply
	if err := c.Call("Arith.Mul", &Args{7, 8}, &reply); err != nil || reply.C != 56 {
		t.Errorf("%s: %v, %v", what, reply, err)
	}
	if err := c.Call("Arith.Fail", &Args{7, 8}, &reply); err == nil || err.Error() != "no, thank you" {
		t.Errorf("%s: %v", what, err)
	}
	closeAll(t, c)
}

// rpcxsWay connects as rpcx's own client does, also to a path without a slash.
func rpcxsWay(address, path, header string, f rpcx.ClientCodecFunc) (*rpc.Client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_, _ = io.WriteString(conn, "CONNECT "+path+" HTTP/1.0\n"+header+"\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.Status != "200 Connected to Go RPC" {
		return nil, errors.Join(errors.New(resp.Status), conn.Close())
	}
	return rpc.NewClientWithCodec(f(conn)), nil
}

// TestServeByHTTP serves, over HTTP, clients of net/rpc, of rpcx, and of this package with
// tandem's protocol and with the program's own codecs.
func TestServeByHTTP(t *testing.T) {
	for _, path := range []string{"", "/rpc/here", "foo"} {
		plain, coded := rpcx.NewServer(), rpcx.NewServer()
		coded.ServerCodecFunc = jsonrpc.NewServerCodec
		at, atCoded := serveByHTTP(t, plain, path), serveByHTTP(t, coded, path)
		asked := path
		if path == "" {
			asked = rpc.DefaultRPCPath
			c, err := rpc.DialHTTP("tcp", at)
			checkCalls(t, "net/rpc", c, err)
			for name, codec := range map[string]rpcx.ClientCodecFunc{at: nil, atCoded: jsonrpc.NewClientCodec} {
				testSelectors(t, name, codec)
			}
		}
		if path != "foo" { // net/rpc does not support a path without a slash
			c, err := rpc.DialHTTPPath("tcp", at, asked)
			checkCalls(t, "net/rpc at "+path, c, err)
		}
		c, err := rpcxsWay(at, asked, "", rpcx.NewGobClientCodec)
		checkCalls(t, "rpcx at "+path, c, err)
		c, err = rpcxsWay(atCoded, asked, "", jsonrpc.NewClientCodec)
		checkCalls(t, "rpcx with a codec at "+path, c, err)
		d := rpcx.Dialer{Timeout: time.Minute, Path: path}
		c, err = d.Dial("http", at, nil)
		checkCalls(t, "ours at "+path, c, err)
		c, err = d.Dial("http", atCoded, jsonrpc.NewClientCodec)
		checkCalls(t, "ours with a codec at "+path, c, err)
		if _, err = (rpcx.Dialer{Path: "/elsewhere"}).Dial("http", at, nil); err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("a path that nobody serves: %v", err)
		}
		if plain.Address() != at {
			t.Errorf("it serves at %s, not %s", at, plain.Address())
		}
	}
}

// testSelectors calls a server of the network "http" with this module's selectors.
func testSelectors(t *testing.T, address string, codec rpcx.ClientCodecFunc) {
	t.Helper()
	one := &rpcx.DirectClientSelector{Network: "http", Address: address, DialTimeout: time.Minute}
	defer closeAll(t, one)
	for _, s := range []rpcx.ClientSelector{one, multi(t, []clientselector.ServerPair{{Network: "http", Address: address}}, rpcx.RoundRobin)} {
		c := rpcx.NewClient(s)
		c.ClientCodecFunc = codec
		var reply Reply
		if err := c.Call("Arith.Mul", &Args{7, 8}, &reply); err != nil || reply.C != 56 {
			t.Errorf("%T: %v, %v", s, reply, err)
		}
		if err := c.Call("Arith.Fail", &Args{7, 8}, &reply); err == nil || err.Error() != "no, thank you" {
			t.Errorf("%T: %v", s, err)
		}
		closeAll(t, c)
	}
}

// TestServeByHTTPWithTLS: TLSConfig makes ServeByHTTP use HTTPS; one that requires client
// certificates is an error.
func TestServeByHTTPWithTLS(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	srv := rpcx.NewServer()
	srv.TLSConfig = serverTLS
	at := serveByHTTP(t, srv, "")
	c, err := rpcx.Dialer{Timeout: time.Minute, TLS: clientTLS}.Dial("http", at, nil)
	checkCalls(t, "over TLS", c, err)
	if _, err := (rpcx.Dialer{Timeout: time.Minute}).Dial("http", at, nil); err == nil {
		t.Error("a client without TLS is served")
	}
	demanding := rpcx.NewServer()
	demanding.TLSConfig = serverTLS.Clone()
	demanding.TLSConfig.ClientAuth = tls.RequireAnyClientCert
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := demanding.ServeByHTTP(ln, ""); err == nil || !strings.Contains(err.Error(), "requires client certificates") {
		t.Errorf("requiring client certificates: %v", err)
	}
	closeAll(t, demanding)
}

// TestHandler: on the program's own mux, the header of a CONNECT has the credentials, and
// other requests get an error.
func TestHandler(t *testing.T) {
	for name, codec := range map[string]struct {
		server rpcx.ServerCodecFunc
		client rpcx.ClientCodecFunc
	}{"net/rpc": {nil, rpcx.NewGobClientCodec}, "own codec": {jsonrpc.NewServerCodec, jsonrpc.NewClientCodec}} {
		srv := rpcx.NewServer()
		srv.ServerCodecFunc = codec.server
		if err := errors.Join(srv.RegisterName("Arith", new(Arith)), srv.Auth(authorize)); err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		mux.Handle("/rpc", srv)
		web := httptest.NewServer(mux)
		address := web.Listener.Addr().String()
		c, err := rpcxsWay(address, "/rpc", "Authorization: Bearer "+token+"\n", codec.client)
		checkCalls(t, name, c, err)
		c, err = rpcxsWay(address, "/rpc", "", codec.client)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err == nil || err.Error() != "Authorization failed " {
			t.Errorf("%s: who says nothing: %v", name, err)
		}
		resp, err := http.Get(web.URL + "/rpc")
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: GET: %s", name, resp.Status)
		}
		_ = resp.Body.Close()
		closeAll(t, srv)
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err == nil {
			t.Errorf("%s: a server that is closed answers", name)
		}
		_ = c.Close()
		if _, err := rpcxsWay(address, "/rpc", "", codec.client); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%s: after it was closed: %v", name, err)
		}
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	}
}

// TestHTTPDialerIsRefused: any response to the CONNECT other than success is an error.
func TestHTTPDialerIsRefused(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.0 403 Forbidden\r\n\r\n":               "403",
		"HTTP/1.0 200 Connected to Go RPC\n\nand more": "before a request",
		"220 mail": "reading the response",
		"HTTP/1.0 200 OK\r\nX: " + strings.Repeat("x", 20<<10): "reading the response",
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, answer)
		}()
		if _, err := (rpcx.Dialer{Timeout: time.Minute}).Dial("http", ln.Addr().String(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %s", answer, err, want)
		}
		closeAll(t, ln)
		<-served
	}
}
