package quic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport/quic"
)

// certificate makes a self-signed certificate for localhost; yours comes from files.
func certificate() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: roots, MinVersion: tls.VersionTLS13,
	}, nil
}

func ExampleNew() {
	config, err := certificate()
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := quic.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ln, err := t.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := server.New()
	defer srv.Close()
	if err := srv.RegisterFunc("Math.Double", func(n int) int { return 2 * n }); err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = srv.ServeListener(ln) }()

	c, err := client.Dial("quic://"+ln.Addr().String(), client.WithTransport("quic", t))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	four, err := client.Invoke[int](context.Background(), c, "Math.Double", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*four)
	// Output: 4
}
