package all_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// anywhere is a listener that reports another address.
type anywhere struct {
	net.Listener

	addr net.Addr
}

func (l anywhere) Addr() net.Addr { return l.addr }

// serveHosts serves all protocols over HTTP on the loopback interface.
func serveHosts(t *testing.T, listensOn net.Addr, opts ...web.Option) (address string) {
	t.Helper()
	opts = append(opts, web.WithPages(), web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata)))
	srv := server.New(server.WithProtocols(web.New(opts...)), server.WithLogger(slog.New(slog.DiscardHandler)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err = errors.Join(err, srv.RegisterFunc("Len", func(s string) int { return len(s) })); err != nil {
		t.Fatal(err)
	}
	address = ln.Addr().String()
	if listensOn != nil {
		ln = anywhere{ln, listensOn}
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return address
}

// askHost makes a request that names a host, and returns the status of the response.
func askHost(t *testing.T, speaks func(*http.Protocols, bool), method, url, host string) int {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	speaks(tr.Protocols, true)
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, url, strings.NewReader(`"abc"`))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodGet {
		req.Body = http.NoBody
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(url, "ws") || strings.HasSuffix(url, "#ws") {
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"MDEyMzQ1Njc4OTAxMjM0NQ=="}}
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		_, _ = io.Copy(io.Discard, res.Body)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// A host name that a page of another site makes resolve to a server on the loopback
// interface gives no access to it (DNS rebinding).
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		name      string
		listensOn net.Addr
		opts      []web.Option
		served    []string
		refused   []string
	}{
		{name: "loopback", served: []string{"localhost", "LocalHost:80", "a.localhost", "127.0.0.1", "127.0.0.2:1", "[::1]:80", "localhost."},
			refused: []string{"evil.example", "localhost.evil.example", "evillocalhost", "127.0.0.1.evil.example", "192.0.2.1", "loopback"}},
		{name: "all interfaces", listensOn: &net.TCPAddr{IP: net.IPv6unspecified, Port: 80}, served: []string{"shop.example", "localhost"}},
		{name: "named", opts: []web.Option{web.WithHosts("Shop.example", "*.shop.example", "[::1]")},
			served: []string{"shop.example:8972", "a.shop.example", "[::1]"}, refused: []string{"localhost", "evilshop.example", "127.0.0.1"}},
		{name: "all", opts: []web.Option{web.WithHosts("*")}, served: []string{"evil.example"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := "http://" + serveHosts(t, c.listensOn, c.opts...)
			for _, host := range c.served {
				ask(t, at, host, false, false)
			}
			for _, host := range c.refused {
				ask(t, at, host, true, len(c.opts) > 0)
			}
		})
	}
}

// Browsers use HTTP/2 with TLS, so its hosts are checked by default, too.
func TestHostsOverTLS(t *testing.T) {
	config, trusts := testcert.Pair(t, "localhost")
	srv := server.New(server.WithProtocols(all.New()...), server.WithTLS(config), server.WithLogger(slog.New(slog.DiscardHandler)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err = errors.Join(err, srv.RegisterFunc("Len", func(s string) int { return len(s) })); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	defer func() {
		_ = srv.Close()
		<-ended
	}()
	for _, http2 := range []bool{false, true} {
		tr := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: trusts.Clone()}
		tr.Protocols.SetHTTP1(!http2)
		tr.Protocols.SetHTTP2(http2)
		for host, want := range map[string]int{"localhost": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+ln.Addr().String()+"/Len", strings.NewReader(`"abc"`))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			req.Header.Set("Content-Type", "application/json")
			res, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != want || res.ProtoMajor == 2 != http2 {
				t.Errorf("%s at %s: %s", res.Proto, host, res.Status)
			}
		}
		tr.CloseIdleConnections()
	}
}

// ask makes a request of every kind, which the server must refuse or answer. HTTP/2 without
// TLS is refused only if WithHosts excludes the host.
func ask(t *testing.T, at, host string, refused, http2Refused bool) {
	t.Helper()
	http1, http2 := (*http.Protocols).SetHTTP1, (*http.Protocols).SetUnencryptedHTTP2
	for _, q := range []struct {
		speaks      func(*http.Protocols, bool)
		method, url string
		refused     bool
	}{
		{http1, "POST", "/Len", refused}, {http2, "POST", "/Len", http2Refused}, {http1, "GET", "/", refused},
		{http2, "GET", "/openapi.json", http2Refused}, {http1, "POST", "/jsonrpc", refused}, {http1, "GET", "/jsonrpc#ws", refused},
	} {
		status := askHost(t, q.speaks, q.method, at+q.url, host)
		if (status == http.StatusMisdirectedRequest) != q.refused || !q.refused && status >= http.StatusBadRequest {
			t.Errorf("%s %s at %s: %d", q.method, q.url, host, status)
		}
	}
}
