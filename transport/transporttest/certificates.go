package transporttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// Certificates returns configs of a server and a client that trust each other and
// nothing else, for harnesses of transports that encrypt. They are valid for
// 127.0.0.1 and localhost, for an hour.
func Certificates(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	server, client, err := certificates()
	if err != nil {
		t.Fatal(err)
	}
	return server, client
}

func certificates() (server, client *tls.Config, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	own, trusted := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}, x509.NewCertPool()
	trusted.AddCert(leaf)
	return &tls.Config{Certificates: own, ClientCAs: trusted, MinVersion: tls.VersionTLS13},
		&tls.Config{Certificates: own, RootCAs: trusted, MinVersion: tls.VersionTLS13}, nil
}
