package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// makeCerts is the script command certs: it writes ca.pem, and certificates of that authority with
// their keys: server.pem and server.key for 127.0.0.1, client.pem and client.key.
func makeCerts(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 0 {
		ts.Fatalf("usage: certs")
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	key := newKey(ts)
	writeCert(ts, "ca", authority, authority, [2]*ecdsa.PrivateKey{key, key})
	for i, name := range []string{"server", "client"} {
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 2), Subject: pkix.Name{CommonName: name},
			NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		writeCert(ts, name, leaf, authority, [2]*ecdsa.PrivateKey{newKey(ts), key})
	}
}

func newKey(ts *testscript.TestScript) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	return key
}

// writeCert writes a certificate and its key, the first of keys; the second is the authority's.
func writeCert(ts *testscript.TestScript, name string, leaf, authority *x509.Certificate, keys [2]*ecdsa.PrivateKey) {
	der, err := x509.CreateCertificate(rand.Reader, leaf, authority, &keys[0].PublicKey, keys[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	text, err := x509.MarshalPKCS8PrivateKey(keys[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), 0o600))
}
