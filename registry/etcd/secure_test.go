//go:build integration && unix

package etcd

import (
	"context"
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
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry"
)

// authority signs certificates for a test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	dir  string
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, pool: x509.NewCertPool(), dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// issue signs a certificate for 127.0.0.1 and returns the names of its files.
func (a *authority) issue(name string) (certFile, keyFile string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", secret)
}

func (a *authority) write(name, kind string, der []byte) string {
	file := filepath.Join(a.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return file
}

// config returns a configuration that trusts the authority and has a client certificate.
func (a *authority) config(name string) *tls.Config {
	cert, err := tls.LoadX509KeyPair(a.issue(name))
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{cert}}
}

// The server requires TLS and a client certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue("server")
	s := newServer(t, "https", "--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", filepath.Join(a.dir, "ca.pem"))
	good := a.config("client")
	s.login = func(c *clientv3.Config) { c.TLS = good }
	s.start()

	r := s.open("/tls?ttl=3s", WithTLS(good))
	register(t, r, instance("a"))
	e := look(t, r, registry.Target{})
	e.sees(within, "a")
	s.kill()
	e.fails(5 * time.Second)
	s.start()
	e.sees(within, "a")

	var refused sync.WaitGroup
	for says, opts := range map[string][]Option{
		"certificate signed by unknown authority": {WithTLS(&tls.Config{})},
		"":                             {WithTLS(&tls.Config{RootCAs: a.pool})}, // the server hangs up, at one moment or another
		"error reading server preface": nil,                                     // no TLS at all
	} {
		r := s.open("/tls", opts...)
		refused.Go(func() { wantRefused(t, r, says) })
	}
	refused.Wait()
}

// wantRefused calls Register, which takes until its deadline and returns how the last
// attempt to connect ended. On a busy machine that attempt may end with its own timeout,
// whose error does not name the cause: then wantRefused tries again.
func wantRefused(t *testing.T, r *Registry, says string) {
	t.Helper()
	const tries = 4
	var err error
	for range tries {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = r.Register(ctx, instance("b"))
		cancel()
		if err == nil || strings.Contains(err.Error(), says) {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("registering: %v, want %q", err, says)
	}
}

// The server requires a user name and a password, and loses its tokens when it is
// restarted.
func TestAuth(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.do(secure)
	s.login = func(c *clientv3.Config) { c.Username, c.Password = "root", "rootpass" }

	r := s.open("/auth/Cart?ttl=3s", WithAuth("cart", "secret"))
	register(t, r, instance("a"))
	e := look(t, r, registry.Target{})
	e.sees(within, "a")
	s.kill()
	e.fails(5 * time.Second)
	s.start()
	t.Logf("listed %v after the server was back", e.sees(8*time.Second, "a"))
	register(t, r, instance("b"))
	e.sees(within, "a", "b")

	for says, c := range map[string]struct {
		dir  string
		opts []Option
	}{
		"authentication failed": {"/auth/Cart", []Option{WithAuth("cart", "wrong")}},
		"user name is empty":    {"/auth/Cart", nil},
		"permission denied":     {"/auth/Other", []Option{WithAuth("cart", "secret")}},
	} {
		other := s.open(c.dir, c.opts...)
		if _, err := other.Register(t.Context(), instance("c")); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("Register: %v, want %q", err, says)
		}
		look(t, other, registry.Target{}).until(within, says, func(snap registry.Snapshot) bool {
			return snap.Err != nil && strings.Contains(snap.Err.Error(), says)
		})
	}
}

// secure enables authentication, with a user that may use one directory.
func secure(ctx context.Context, c *clientv3.Client) error {
	const dir = "/auth/Cart/"
	steps := []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", "rootpass"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.RoleAdd(ctx, "cart"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "cart", dir, clientv3.GetPrefixRangeEnd(dir), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "cart", "secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "cart", "cart"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
