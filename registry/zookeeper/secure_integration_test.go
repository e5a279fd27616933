//go:build integration

package zookeeper

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// TestAuth registers with an ACL that only its user may write, and for acl=creator read.
func TestAuth(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	relay := startRelay(t, s.address())
	for _, acl := range []string{"creator", "read"} {
		t.Run(acl, func(t *testing.T) {
			where := fmt.Sprintf("zookeeper://%s/%s/list?ttl=2s&acl=%s", relay.address(), acl, acl)
			user := WithAuth("tandem", "a secret: not this one")
			r := open(t, where, user, logged(t))
			register(t, r, "i", 2)
			w := watch(t, Resolver(user), mustParse(t, where))
			w.sees(t, 2, 15*time.Second)

			stranger := watch(t, Resolver(), mustParse(t, strings.TrimSuffix(where, "&acl="+acl)))
			if acl == "read" {
				stranger.sees(t, 2, 15*time.Second)
			} else {
				stranger.fails(t, 15*time.Second)
			}
			_, err := open(t, where, WithAuth("tandem", "guessed")).Register(t.Context(), instance("forged"))
			if err == nil || !strings.Contains(err.Error(), zk.ErrNoAuth.Error()) {
				t.Errorf("another user could register: %v", err)
			}
			// The next session is the same user's.
			if err := relay.endSessions(); err != nil {
				t.Fatal(err)
			}
			w.fails(t, 15*time.Second)
			w.sees(t, 2, 15*time.Second)
		})
	}
}

// certificate returns a self-signed certificate for 127.0.0.1 and localhost, as PEM with
// its key (both) and without (public).
func certificate(t testing.TB) (pair tls.Certificate, both, public []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "zookeeper"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	both = append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), public...)
	pair, err = tls.X509KeyPair(public, both)
	if err != nil {
		t.Fatal(err)
	}
	return pair, both, public
}

// TestTLS uses the server's TLS port, where both sides present a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	pair, both, public := certificate(t)
	dir := t.TempDir()
	store, trust := filepath.Join(dir, "server.pem"), filepath.Join(dir, "trust.pem")
	for file, data := range map[string][]byte{store: both, trust: public} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := registrytest.FreePort(t)
	startServer(t,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPortAddress=127.0.0.1", fmt.Sprintf("secureClientPort=%d", port),
		"ssl.keyStore.location="+store, "ssl.keyStore.type=PEM",
		"ssl.trustStore.location="+trust, "ssl.trustStore.type=PEM", "ssl.clientAuth=need")
	trusted := x509.NewCertPool()
	trusted.AddCert(pair.Leaf)
	// A host name, as the certificate is verified against it.
	where := target(fmt.Sprintf("localhost:%d", port), "?ttl=2s")
	config := &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	r := open(t, where, WithTLS(config), logged(t))
	register(t, r, "i", 2)
	w := watch(t, Resolver(WithTLS(config)), mustParse(t, where))
	w.sees(t, 2, 15*time.Second)

	for name, bad := range map[string]*tls.Config{
		"another authority":     {Certificates: []tls.Certificate{pair}},
		"another name":          {RootCAs: trusted, Certificates: []tls.Certificate{pair}, ServerName: "elsewhere"},
		"no client certificate": {RootCAs: trusted},
		"no TLS":                nil,
	} {
		w := watch(t, Resolver(WithTLS(bad)), mustParse(t, where))
		w.fails(t, 10*time.Second)
		w.mu.Lock()
		t.Logf("%s: %v", name, w.last.Err)
		w.mu.Unlock()
	}
}
