package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// byName serves a transport of the server.
func byName(t *testing.T, srv *server.Server, name, address string) (at string, served chan error) {
	t.Helper()
	served = make(chan error, 1)
	go func() { served <- srv.Serve(name, address) }()
	waitFor(t, "the listener", func() bool { return len(srv.Addrs()) == 1 || len(served) == 1 })
	if len(srv.Addrs()) == 0 {
		return "", served
	}
	return srv.Addrs()[0].String(), served
}

// byListener serves a listener.
func byListener(t *testing.T, srv *server.Server, network tandem.Transport, address string) (at string, served chan error) {
	t.Helper()
	ln, err := network.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	return ln.Addr().String(), served
}

// However a server is started, WithTLS that demands client certificates accepts clients that
// show one, whose identity the handlers see, and refuses all others.
func TestTLSAppliesEverywhere(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	serverTLS.ClientAuth = tls.RequireAndVerifyClientCert
	clientTLS.ServerName = "localhost"
	mem := transport.NewMemory()
	for name, w := range map[string]struct {
		network, address string
		transport        tandem.Transport
		listener         bool
	}{
		"Serve tcp":            {"tcp", "127.0.0.1:0", transport.TCP(), false},
		"Serve unix":           {"unix", filepath.Join(t.TempDir(), "a"), transport.Unix(), false},
		"Serve memory":         {"mem", "a", mem, false},
		"ServeListener tcp":    {"tcp", "127.0.0.1:0", transport.TCP(), true},
		"ServeListener unix":   {"unix", filepath.Join(t.TempDir(), "b"), transport.Unix(), true},
		"ServeListener memory": {"mem", "b", mem, true},
	} {
		for _, protocols := range [][]server.Protocol{nil, {talk{}}} {
			t.Run(name, func(t *testing.T) {
				srv := server.New(server.WithTransport(w.network, w.transport), server.WithTLS(serverTLS), server.WithProtocols(protocols...))
				register(t, srv)
				start := func() (string, chan error) { return byName(t, srv, w.network, w.address) }
				if w.listener {
					start = func() (string, chan error) { return byListener(t, srv, w.transport, w.address) }
				}
				address, served := start()
				t.Cleanup(func() { _ = srv.Close(); <-served })
				target := w.network + "://" + address
				if who, err := whoAmI(t, target, client.WithTransport(w.network, w.transport), client.WithTLS(clientTLS)); who != "localhost" {
					t.Errorf("a client with a certificate is %q, %v", who, err)
				}
				anonymous := clientTLS.Clone()
				anonymous.Certificates = nil
				for what, opts := range map[string][]client.Option{"plain text": nil, "no certificate": {client.WithTLS(anonymous)}} {
					opts = append(opts, client.WithTransport(w.network, w.transport))
					if who, err := whoAmI(t, target, opts...); err == nil || tandem.MayHaveExecuted(err) {
						t.Errorf("%s: a client is let in as %q, %v", what, who, err)
					}
				}
			})
		}
	}
}

func register(t *testing.T, srv *server.Server) {
	t.Helper()
	if err := srv.RegisterFunc("Who", func(ctx context.Context, _ string) string {
		state := tandem.FromContext(ctx).Peer.TLS
		if state == nil || len(state.PeerCertificates) == 0 {
			return "nobody"
		}
		return state.PeerCertificates[0].Subject.CommonName
	}); err != nil {
		t.Fatal(err)
	}
}

func whoAmI(t *testing.T, target string, opts ...client.Option) (string, error) {
	t.Helper()
	c, err := client.Dial(target, append(opts, client.WithWait(200*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	who, err := client.Invoke[string](t.Context(), c, "Who", "")
	if err != nil {
		return "", err
	}
	return *who, nil
}

// WithTLS applies to connections that no listener has accepted, too.
func TestTLSAppliesToServeProtocol(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	clientTLS.ServerName = "localhost"
	srv := server.New(server.WithTLS(serverTLS))
	register(t, srv)
	near, far := transport.Pipe(&net.UnixAddr{}, &net.UnixAddr{})
	served := make(chan error, 1)
	go func() { served <- srv.ServeProtocol(far, talk{}) }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	c := tls.Client(near, clientTLS)
	defer c.Close()
	_, _ = io.WriteString(c, "CALL Who x\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "nobody\n" {
		t.Errorf("over TLS: %q, %v", line, err)
	}
	demanding := serverTLS.Clone()
	demanding.ClientAuth = tls.RequireAndVerifyClientCert
	secured, other := transport.Pipe(&net.UnixAddr{}, &net.UnixAddr{})
	defer other.Close()
	err := server.New(server.WithTLS(demanding)).ServeProtocol(tls.Server(secured, serverTLS), talk{})
	if !errors.Is(err, transport.ErrSecured) {
		t.Errorf("a connection whose TLS asks for no certificate: %v", err)
	}
}

// hidden is a listener that wraps another one in a type that does not show its TLS.
type hidden struct{ net.Listener }

// A listener that can't have TLS or has it already, and a TLS configuration that can't work,
// are an error before a connection is accepted; a listener that hides its TLS is one with its
// first connection.
func TestTLSThatCantBe(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	old := serverTLS.Clone()
	old.MinVersion, old.MaxVersion = 0, tls.VersionTLS11
	listen := func(t *testing.T, network tandem.Transport) net.Listener {
		ln, err := network.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	for name, c := range map[string]struct {
		config  *tls.Config
		network tandem.Transport
		wrap    func(net.Listener) net.Listener
		want    string
	}{
		"no config":             {nil, transport.TCP(), nil, "is nil"},
		"no certificates":       {&tls.Config{}, transport.TCP(), nil, "no certificates"},
		"an empty certificate":  {&tls.Config{Certificates: make([]tls.Certificate, 1)}, transport.TCP(), nil, "no private key"},
		"old versions only":     {old, transport.TCP(), nil, "MaxVersion"},
		"a TLS transport":       {serverTLS, transport.TLS(transport.TCP(), serverTLS), nil, "TLS already"},
		"a listener of tls":     {serverTLS, transport.TCP(), func(ln net.Listener) net.Listener { return tls.NewListener(ln, serverTLS) }, "TLS already"},
		"a listener that hides": {serverTLS, transport.TCP(), func(ln net.Listener) net.Listener { return hidden{tls.NewListener(ln, serverTLS)} }, "TLS already"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := server.New(server.WithTLS(c.config), server.WithTransport("tcp", c.network))
			t.Cleanup(func() { _ = srv.Close() })
			ln := listen(t, c.network)
			if c.wrap != nil {
				ln = c.wrap(ln)
			}
			if name == "a listener that hides" {
				go func() {
					if c, err := tls.Dial("tcp", ln.Addr().String(), clientTLS); err == nil {
						_ = c.Close()
					}
				}()
			}
			if err := srv.ServeListener(ln); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("ServeListener: %v", err)
			}
			if c.wrap != nil {
				return
			}
			if err := srv.Serve("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	if err := server.New().Serve("tls", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "WithTLS") {
		t.Errorf(`Serve("tls"): %v`, err)
	}
}
