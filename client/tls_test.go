package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// With mutual TLS the handler knows the caller; a client without a certificate, or one that
// does not trust the server, can't make calls.
func TestTLS(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "alice")
	serverTLS.ClientAuth = tls.RequireAndVerifyClientCert
	_, addr := serveOn(t, transport.TLS(transport.TCP(), serverTLS), "127.0.0.1:0", func(srv *server.Server) error {
		return errors.Join(methods(srv), server.Handle(srv, "Test.Name", func(ctx context.Context, _ *string) (*string, error) {
			return &tandem.FromContext(ctx).Peer.TLS.PeerCertificates[0].Subject.CommonName, nil
		}))
	})
	c := dial(t, "tcp://"+addr.String(), client.WithTLS(clientTLS), client.WithConnections(client.Connections{PerInstance: 2}))
	name, err := client.Invoke[string](context.Background(), c, "Test.Name", "")
	if err != nil || *name != "alice" {
		t.Fatalf("got %v, %v", name, err)
	}
	t.Run("streams", func(t *testing.T) { testStreams(t, c) })

	for what, opts := range map[string][]client.Option{
		"no certificate": {client.WithTLS(&tls.Config{RootCAs: clientTLS.RootCAs, MinVersion: tls.VersionTLS13})},
		"no trust":       {client.WithTLS(nil)},
		"no TLS":         nil,
	} {
		stranger := dial(t, "tcp://"+addr.String(), append(opts, client.WithConnections(client.Connections{Timeout: 500 * time.Millisecond}), client.WithWait(500*time.Millisecond))...)
		err := stranger.Call(context.Background(), "Test.Name", "", nil)
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// WithTLS is an error if a transport can't have TLS, in either order of WithTLS and
// WithTransport.
func TestTLSThatCantBe(t *testing.T) {
	_, clientTLS := testcert.Pair(t, "alice")
	old := &tls.Config{MaxVersion: tls.VersionTLS11}
	for name, c := range map[string]struct {
		target string
		opts   []client.Option
		want   string
	}{
		"old versions":          {"tcp://a:1", []client.Option{client.WithTLS(old)}, "MaxVersion"},
		"an empty certificate":  {"tcp://a:1", []client.Option{client.WithTLS(&tls.Config{Certificates: make([]tls.Certificate, 1)})}, "no private key"},
		"a unix socket":         {"unix:///a", []client.Option{client.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12})}, "ServerName"},
		"a TLS transport":       {"tcp://a:1", []client.Option{client.WithTLS(clientTLS), client.WithTransport("tcp", transport.TLS(transport.TCP(), nil))}, "TLS already"},
		"a TLS transport first": {"tcp://a:1", []client.Option{client.WithTransport("x", transport.TLS(transport.TCP(), nil)), client.WithTLS(clientTLS)}, `transport "x"`},
		"tls as a scheme":       {"tls://a:1", nil, "tcp:// with WithTLS"},
	} {
		got, err := client.Dial(c.target, c.opts...)
		if err == nil {
			_ = got.Close()
		}
		if tandem.CodeOf(err) != tandem.InvalidArgument || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// WithTLS applies to all transports, also to those that are given after it.
func TestTLSOnEveryTransport(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	mem := transport.NewMemory()
	serveOn(t, transport.TLS(mem, serverTLS), "localhost", methods)
	for _, opts := range [][]client.Option{
		{client.WithTLS(clientTLS), client.WithTransport("mem", mem)},
		{client.WithTransport("mem", mem), client.WithTLS(clientTLS)},
	} {
		c := dial(t, "mem://localhost", opts...)
		if err := c.Call(t.Context(), "Test.Echo", &[]byte{1}, new([]byte)); err != nil {
			t.Error(err)
		}
	}
}

// Each connection has the configuration of its moment. An error, or a configuration that can't work, is an error of
// Dial at first, and of connections later; the client recovers from it.
func TestTLSFromIsAskedForEachConnection(t *testing.T) {
	oldTLS, oldTrust := testcert.Pair(t, "localhost")
	newTLS, newTrust := testcert.Pair(t, "localhost")
	mem := transport.NewMemory()
	serveOn(t, transport.TLS(mem, oldTLS), "localhost", methods)
	var mu sync.Mutex
	config, failed := oldTrust, error(nil)
	set := func(c *tls.Config, err error) {
		mu.Lock()
		defer mu.Unlock()
		config, failed = c, err
	}
	source := func() (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		return config, failed
	}
	opts := []client.Option{client.WithTransport("mem", mem), client.WithTLSFrom(source), client.WithWait(300 * time.Millisecond)}
	set(nil, errors.New("no files"))
	if _, err := client.Dial("mem://localhost", opts...); tandem.CodeOf(err) != tandem.InvalidArgument || !strings.Contains(err.Error(), "WithTLSFrom: no files") {
		t.Errorf("Dial: %v", err)
	}
	if _, err := client.Dial("mem://localhost", client.WithTLSFrom(nil)); err == nil {
		t.Error("a nil source was accepted")
	}
	ask := func(c *client.Client) error {
		_, err := client.Invoke[[]byte](t.Context(), c, "Test.Echo", []byte("x"))
		return err
	}
	set(oldTrust, nil)
	c := dial(t, "mem://localhost", opts...)
	if err := ask(c); err != nil {
		t.Fatal(err)
	}
	other := transport.NewMemory()
	serveOn(t, transport.TLS(other, newTLS), "localhost", methods)
	opts[0] = client.WithTransport("mem", other)
	d := dial(t, "mem://localhost", opts...)
	if err := ask(d); tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("a server that is not trusted: %v", err)
	}
	set(newTrust, nil)
	for end := time.Now().Add(20 * time.Second); ask(d) != nil; {
		if time.Now().After(end) {
			t.Fatal("the new configuration is not used")
		}
	}
}
