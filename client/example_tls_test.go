package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// certificateFor returns a certificate that signs itself.
func certificateFor(host string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	leaf, err := x509.ParseCertificate(der)
	check(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// The configuration is asked for with each connection, here to trust what is trusted at that moment.
func ExampleWithTLSFrom() {
	own := certificateFor("it")
	trusted := x509.NewCertPool()
	trusted.AddCert(own.Leaf)
	network, srv := transport.NewMemory(), server.New(server.WithTLS(&tls.Config{Certificates: []tls.Certificate{own}}))
	check(server.Handle(srv, "It.Does", func(_ context.Context, n *int) (*int, error) { return n, nil }))
	ln, err := network.Listen(context.Background(), "it")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	latest := func() (*tls.Config, error) { return &tls.Config{RootCAs: trusted}, nil }
	c, err := client.Dial("mem://it", client.WithTransport("mem", network), client.WithTLSFrom(latest))
	check(err)
	n, err := client.Invoke[int](context.Background(), c, "It.Does", 7)
	fmt.Println(*n, err)
	check(c.Close())
	check(srv.Close())
	<-served
	// Output: 7 <nil>
}
