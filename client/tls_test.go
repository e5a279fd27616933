package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// mutual returns configs of a server and a client that know each other by one
// certificate.
func mutual(t *testing.T) (serverTLS, clientTLS *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "alice"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	pair := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return &tls.Config{Certificates: pair, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13},
		&tls.Config{Certificates: pair, RootCAs: pool, MinVersion: tls.VersionTLS13}
}

// With mutual TLS the handler knows who calls; whoever shows no certificate, or
// does not trust the server, makes no call.
func TestTLS(t *testing.T) {
	serverTLS, clientTLS := mutual(t)
	srv, addr := serve(t, transport.TLS(transport.TCP(), serverTLS), "127.0.0.1:0")
	err := server.Handle(srv, "Test.Name", func(ctx context.Context, _ *string) (*string, error) {
		return &tandem.FromContext(ctx).Peer.TLS.PeerCertificates[0].Subject.CommonName, nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
