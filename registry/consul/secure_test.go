//go:build integration

package consul

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// Tokens of the tests: one with every permission, and one that Consul does not know.
const (
	bootstrapToken = "b4f6e0a2-31e3-4b8a-9a57-0f8a3d1f5d10"
	unknownToken   = "00000000-0000-0000-0000-000000000001"
)

// TestACL uses an agent that allows nothing without a token.
func TestACL(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, map[string]any{"acl": map[string]any{
		"enabled": true, "default_policy": "deny", "tokens": map[string]any{"initial_management": bootstrapToken, "agent": bootstrapToken},
	}})
	a.api = a.connect("http", bootstrapToken, nil)
	a.start()
	target := a.target("/prod/Arith?ttl=3s")
	for _, token := range []string{"", unknownToken} {
		_, err := open(t, target, WithToken(token)).Register(t.Context(), instance("a"))
		if err == nil || !strings.Contains(err.Error(), "403") || strings.Contains(err.Error(), unknownToken) {
			t.Errorf("token %q: registering gave %v", token, err)
		}
	}
	server := open(t, target, WithToken(a.token(t, `service "Arith" { policy = "write" } node_prefix "" { policy = "read" }`)))
	list(t, server, "a")
	look(t, server, "").sees("a")
	reader := Resolver(WithToken(a.token(t, `service "Arith" { policy = "read" } node_prefix "" { policy = "read" }`)))
	look(t, reader, target).sees("a")

	for what, resolver := range map[string]*eye{
		"no token":                         look(t, Resolver(), target),
		"an unknown token":                 look(t, Resolver(WithToken(unknownToken)), target),
		"a token for another service":      look(t, Resolver(WithToken(a.token(t, `service "Echo" { policy = "read" }`))), target),
		"a token that can't see the nodes": look(t, Resolver(WithToken(a.token(t, `service "Arith" { policy = "read" }`))), target),
	} {
		resolver.fails(5 * time.Second)
		t.Logf("%s: %v", what, resolver.last.Err)
	}
	if _, err := open(t, target, WithToken(a.token(t, `service "Arith" { policy = "read" }`))).Register(t.Context(), instance("b")); err == nil {
		t.Error("registered with a token for reading")
	}
}

// token makes a token with a policy.
func (a *agent) token(t *testing.T, rules string) string {
	t.Helper()
	policy, _, err := a.api.ACL().PolicyCreate(&api.ACLPolicy{Name: strings.ToLower(rand.Text()), Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := a.api.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

// TestTLS uses an agent that accepts only TLS, and only clients with a certificate of
// its own authority.
func TestTLS(t *testing.T) {
	t.Parallel() // it waits
	ca := newAuthority(t)
	a := startAgent(t, nil)
	ports := a.config["ports"].(map[string]any)
	ports["http"], ports["https"] = -1, ports["http"]
	a.config["verify_incoming"] = true
	a.config["ca_file"], a.config["cert_file"], a.config["key_file"] = ca.files(a.dir)
	good := &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ca.issue("client")}, MinVersion: tls.VersionTLS12}
	a.api = a.connect("https", "", good.Clone())
	a.start()

	target := a.target("/prod/Arith?ttl=3s")
	r := open(t, target, WithTLS(good))
	list(t, r, "a")
	look(t, r, "").sees("a")
	look(t, Resolver(WithTLS(good)), target).sees("a")

	stranger := newAuthority(t)
	for what, opts := range map[string][]Option{
		"no TLS":                           nil,
		"a server of an unknown authority": {WithTLS(nil)},
		"another authority":                {WithTLS(&tls.Config{RootCAs: stranger.pool, Certificates: good.Certificates, MinVersion: tls.VersionTLS12})},
		"no certificate":                   {WithTLS(&tls.Config{RootCAs: ca.pool, MinVersion: tls.VersionTLS12})},
		"a stranger's certificate":         {WithTLS(&tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{stranger.issue("client")}, MinVersion: tls.VersionTLS12})},
	} {
		if _, err := open(t, target, opts...).Register(t.Context(), instance("b")); err == nil {
			t.Errorf("%s: registered", what)
		}
		e := look(t, Resolver(opts...), target)
		e.fails(5 * time.Second)
		t.Logf("%s: %v", what, e.last.Err)
	}
}

// authority issues certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca := &authority{t: t, key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca.cert = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key))))
	ca.pool.AddCert(ca.cert)
	return ca
}

// issue returns a certificate that is good for servers and clients on loopback.
func (ca *authority) issue(name string) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files writes the certificates and the key of a server into a directory.
func (ca *authority) files(dir string) (caFile, certFile, keyFile string) {
	pair := ca.issue("server.dc1.consul")
	write := func(file, kind string, der []byte) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			ca.t.Fatal(err)
		}
		return path
	}
	return write("ca.pem", "CERTIFICATE", ca.cert.Raw),
		write("cert.pem", "CERTIFICATE", pair.Certificate[0]),
		write("key.pem", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(pair.PrivateKey)))
}
