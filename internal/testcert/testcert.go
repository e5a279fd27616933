// Package testcert makes the certificates of tests. No code can import it: in
// the import table it stands above all that is not a test.
package testcert

import (
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
)

// Pair returns configs of a server and a client that hold the same new
// certificate and trust nothing else. It is valid for 127.0.0.1 and for the
// host that name is, and name is its common name.
//
// The server asks for no certificate. For mutual TLS set its ClientAuth to
// [tls.RequireAndVerifyClientCert]; the client has what it takes.
func Pair(t testing.TB, name string) (server, client *tls.Config) {
	t.Helper()
	return Spoiled(t, name, func(*x509.Certificate) {})
}

// Spoiled is Pair with a certificate that spoil has changed before it was signed.
func Spoiled(t testing.TB, name string, spoil func(*x509.Certificate)) (server, client *tls.Config) {
	t.Helper()
	pair, err := selfSigned(name, spoil)
	if err != nil {
		t.Fatal(err)
	}
	own, trusted := []tls.Certificate{pair}, x509.NewCertPool()
	trusted.AddCert(pair.Leaf)
	return &tls.Config{Certificates: own, ClientCAs: trusted, MinVersion: tls.VersionTLS13},
		&tls.Config{Certificates: own, RootCAs: trusted, MinVersion: tls.VersionTLS13}
}

func selfSigned(name string, spoil func(*x509.Certificate)) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	spoil(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
