package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"runtime"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// selfSigned returns a certificate for this host and a pool that trusts it.
func selfSigned(name string) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	leaf, err := x509.ParseCertificate(der)
	check(err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// With mutual TLS each side knows the identity of the other.
func ExampleWithTLS() {
	cert, trusted := selfSigned("alice")
	srv := server.New(server.WithTLS(&tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientCAs:    trusted,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}))
	check(server.Handle(srv, "Who.AmI", func(ctx context.Context, _ *string) (*string, error) {
		return &tandem.FromContext(ctx).Peer.TLS.PeerCertificates[0].Subject.CommonName, nil
	}))
	served := make(chan error, 1)
	go func() { served <- srv.Serve("tcp", "127.0.0.1:0") }()
	for len(srv.Addrs()) == 0 {
		runtime.Gosched() // it listens in a moment
	}
	for _, own := range [][]tls.Certificate{{cert}, nil} {
		c, err := client.Dial("tcp://"+srv.Addrs()[0].String(),
			client.WithTLS(&tls.Config{RootCAs: trusted, Certificates: own}))
		check(err)
		var name string
		err = c.Call(context.Background(), "Who.AmI", "", &name)
		fmt.Printf("%q %v\n", name, tandem.CodeOf(err))
		check(c.Close())
	}
	check(srv.Close())
	<-served
	// Output:
	// "alice" ok
	// "" unavailable
}
