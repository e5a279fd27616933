package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// With mutual TLS the handler knows who calls; whoever shows no certificate, or
// does not trust the server, makes no call.
func TestTLS(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "alice")
	serverTLS.ClientAuth = tls.RequireAndVerifyClientCert
	_, addr := serveOn(t, transport.TLS(transport.TCP(), serverTLS), "127.0.0.1:0", func(srv *server.Server) error {
		return errors.Join(methods(srv), server.Handle(srv, "Test.Name", func(ctx context.Context, _ *string) (*string, error) {
			return &tandem.FromContext(ctx).Peer.TLS.PeerCertificates[0].Subject.CommonName, nil
		}))
	})
	c := dial(t, "tcp://"+addr.String(), client.WithTLS(clientTLS), client.WithConnections(2))
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
		stranger := dial(t, "tcp://"+addr.String(), append(opts, client.WithConnectTimeout(500*time.Millisecond))...)
		err := stranger.Call(context.Background(), "Test.Name", "", nil)
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
