package all_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// TestOneSideOfTLS has clients of every scheme call servers with TLS without it, and the
// other way round: the error and the server's log say so.
func TestOneSideOfTLS(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	for what, mode := range map[string]struct {
		server []server.Option
		client []client.Option
		want   error
		logged error
	}{
		"TLS at the client": {nil, []client.Option{client.WithTLS(clientTLS)}, transport.ErrServerIsPlain, transport.ErrClientWantsTLS},
		"TLS at the server": {[]server.Option{server.WithTLS(serverTLS)}, nil, transport.ErrServerWantsTLS, transport.ErrClientIsPlain},
	} {
		for _, protocols := range [][]server.Protocol{nil, all.New()} {
			for _, p := range append([]client.Protocol{nil}, all.Clients()...) {
				scheme, opts := "tcp", slices.Clip(mode.client)
				if p != nil {
					scheme, opts = p.Name(), append([]client.Option{client.WithProtocols(p)}, opts...)
				}
				t.Run(what+" "+scheme, func(t *testing.T) {
					address, logged := serveLogged(t, append(slices.Clip(mode.server), server.WithProtocols(protocols...))...)
					c, err := client.Dial(scheme+"://"+address, append(opts, client.WithWait(0))...)
					if err != nil {
						t.Fatal(err)
					}
					err = c.Call(t.Context(), "Text.Len", nil, nil)
					if tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), mode.want.Error()) {
						t.Errorf("the error is %v", err)
					}
					_ = c.Close()
					if log := logged(); !strings.Contains(log, mode.logged.Error()) {
						t.Errorf("the log: %s", log)
					}
				})
			}
		}
	}
}

// serveLogged serves without methods. logged returns the log after the server has ended.
func serveLogged(t *testing.T, opts ...server.Option) (address string, logged func() string) {
	t.Helper()
	log := new(bytes.Buffer)
	srv := server.New(append(opts, server.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))))...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	end := sync.OnceFunc(func() { _ = srv.Close(); <-served })
	t.Cleanup(end)
	return ln.Addr().String(), func() string { end(); return log.String() }
}

// Clients of other frameworks get an answer in their protocol: a browser's https at a
// plain-text port, and http at a TLS port.
func TestOneSideOfTLSForOthers(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	plain, _ := serveLogged(t, server.WithProtocols(all.New()...))
	secured, _ := serveLogged(t, server.WithTLS(serverTLS), server.WithProtocols(all.New()...))
	get := func(url string) (string, error) {
		over := &http.Transport{TLSClientConfig: clientTLS, DisableKeepAlives: true}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			return "", err
		}
		resp, err := over.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.Status + string(body), err
	}
	if _, err := get("https://" + plain); err == nil || !strings.Contains(err.Error(), "does not look like a TLS handshake") {
		t.Errorf("https at plain text: %v", err)
	}
	if said, err := get("http://" + secured); err != nil || !strings.Contains(said, "HTTP request to an HTTPS server") {
		t.Errorf("http at TLS: %q, %v", said, err)
	}
	if _, err := tls.Dial("tcp", plain, clientTLS); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("TLS at plain text: %v", err)
	}
}

// An HTTP client of a server without HTTP is told so, and the log names the option.
func TestHTTPClientOfServerWithoutHTTP(t *testing.T) {
	for what, protocols := range map[string][]server.Protocol{"no protocol": nil, "another protocol": {rpcx.New()}} {
		for _, request := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
			address, logged := serveLogged(t, server.WithProtocols(protocols...))
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.WriteString(c, request)
			said, _ := io.ReadAll(c)
			if err != nil || !strings.HasPrefix(string(said), "HTTP/1.0 400 ") || !strings.Contains(string(said), "WithProtocols") {
				t.Errorf("%s, %.5s: %q, %v", what, request, said, err)
			}
			_ = c.Close()
			if log := logged(); !strings.Contains(log, "the client speaks HTTP") || !strings.Contains(log, "WithProtocols") {
				t.Errorf("%s, %.5s: the log: %s", what, request, log)
			}
		}
	}
}
