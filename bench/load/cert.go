package load

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// tlsName is the name in the certificate. Clients ask for it at any address, since a peer's
// server may be on another host.
const tlsName = "tandem.bench"

// TLS returns configurations of a server and of a client that trusts only that server, the
// same in every process. The key is not secret: this measures the cost of TLS and protects
// nothing.
func TLS() (server, client *tls.Config, err error) {
	key := ed25519.NewKeyFromSeed([]byte("the bench's key is not a secret!"))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: tlsName},
		NotBefore:    time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA:         true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		DNSNames: []string{tlsName},
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key) // Ed25519 uses no randomness
	if err != nil {
		return nil, nil, fmt.Errorf("load: making the certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("load: reading the certificate: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(leaf)
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}
	return &tls.Config{Certificates: own, MinVersion: tls.VersionTLS13},
		&tls.Config{RootCAs: trusted, ServerName: tlsName, MinVersion: tls.VersionTLS13}, nil
}
