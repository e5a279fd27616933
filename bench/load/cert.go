package load

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// TLS returns configurations of a server and of a client that trusts it alone,
// the same in every process: the key is no secret, and good for 127.0.0.0/24
// only.
func TLS() (server, client *tls.Config, err error) {
	key := ed25519.NewKeyFromSeed([]byte("the bench's key is not a secret!"))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "bench"},
		NotBefore:    time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA:         true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for host := range maxHosts {
		template.IPAddresses = append(template.IPAddresses, loopback(host))
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key) // Ed25519 takes no randomness
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
		&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13}, nil
}

// loopback is the n-th address of this machine that nobody else can reach.
func loopback(n int) net.IP { return net.IPv4(127, 0, 0, byte(n+1)) } //nolint:gosec // n is below maxHosts
