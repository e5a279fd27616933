//go:build integration

package redis

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

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// acl has the rights that a user of the registry needs, as the guide lists them.
const acl = "user arith on >secret ~tandem:* &tandem:* -@all " +
	"+eval +evalsha +time +hget +hset +hdel +hstrlen +zadd +zrem +zscore +zrange +zrangebyscore +zrevrangebyscore +pexpireat " +
	"+publish +subscribe +unsubscribe +ping " +
	"+get +set +del +strlen +zcard +scan"

// startSecure runs a server that accepts only TLS, requires a client certificate, and has
// one user.
func startSecure(t testing.TB) (*server, *tls.Config) {
	dir := t.TempDir()
	config := certificate(t, dir)
	users := filepath.Join(dir, "users.acl")
	put(t, users, []byte("user default off\n"+acl+"\n"))
	port := registrytest.FreePort(t)
	s := start(t, "--port", "0", "--tls-port", fmt.Sprint(port),
		"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-ca-cert-file", filepath.Join(dir, "cert.pem"), "--tls-auth-clients", "yes", "--aclfile", users)
	s.port = port
	return s, config
}

// certificate writes a self-signed certificate for 127.0.0.1 and its key. It returns the
// configuration of a client that presents and trusts it.
func certificate(t testing.TB, dir string) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	put(t, filepath.Join(dir, "cert.pem"), certPEM)
	put(t, filepath.Join(dir, "key.pem"), keyPEM)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certPEM)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trusted, MinVersion: tls.VersionTLS13}
}

func put(t testing.TB, name string, data []byte) {
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTLSAndAuth(t *testing.T) {
	s, config := startSecure(t)
	target := s.target("prod/Arith?ttl=1s")
	good := []Option{WithTLS(config), WithAuth("arith", "secret")}
	v := look(t, Resolver(good...), target)
	reg := register(t, open(t, target, good...), instance("a"))
	v.sees(2*time.Second, "a")
	in := instance("a")
	in.Weight = 7
	if err := reg.Update(t.Context(), in); err != nil {
		t.Error(err)
	}
	v.until("update", time.Second, func() bool { return len(v.last.Instances) == 1 && v.last.Instances[0].Weight == 7 })
	<-time.After(1500 * time.Millisecond) // longer than the time to live: the instance is renewed
	reg.Close()
	v.sees(time.Second)
	if v.errs > 0 || v.empty > 1 {
		t.Errorf("%d errors, %d empty lists", v.errs, v.empty)
	}

	none := config.Clone()
	none.Certificates = nil
	for name, tc := range map[string]struct {
		opts []Option
		want string
	}{
		"plain text":      {[]Option{WithAuth("arith", "secret")}, ""},
		"trusts nobody":   {[]Option{WithTLS(&tls.Config{MinVersion: tls.VersionTLS13}), WithAuth("arith", "secret")}, "unknown authority"},
		"no certificate":  {[]Option{WithTLS(none), WithAuth("arith", "secret")}, ""},
		"no password":     {[]Option{WithTLS(config)}, "nauth"},
		"wrong password":  {[]Option{WithTLS(config), WithAuth("arith", "wrong")}, "WRONGPASS"},
		"somebody else's": {[]Option{WithTLS(config), WithAuth("eve", "secret")}, "WRONGPASS"},
	} {
		r := open(t, target, tc.opts...)
		_, err := r.Register(t.Context(), instance("b"))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: Register: %v, want %q", name, err, tc.want)
		}
		v := look(t, r, target)
		v.until("error", 5*time.Second, func() bool { return v.errs > 0 })
	}
}

// TestWrongList: a user can watch and register in the lists that its access control list
// permits; the watch of another one fails.
func TestWrongList(t *testing.T) {
	s := start(t)
	admin := s.admin()
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "arith", "on", ">secret", "~tandem:{prod/*", "&tandem:{prod/*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	r := open(t, s.target("prod/Arith"), WithAuth("arith", "secret"))
	v := look(t, r, s.target("prod/Arith"))
	forbidden := look(t, r, s.target("test/Arith"))
	forbidden.until("error", 2*time.Second, func() bool { return forbidden.errs > 3 })
	register(t, r, instance("a"))
	v.sees(2*time.Second, "a")
	if v.errs > 0 {
		t.Error("the watch of one list disturbs that of another")
	}
	var none registry.Snapshot
	if forbidden.last.Revision != none.Revision {
		t.Errorf("a list that may not be read: %+v", forbidden.last)
	}
}

// TestDatabase: a database other than 0 needs one more right. Lists of the same name in two
// databases are independent.
func TestDatabase(t *testing.T) {
	s := start(t)
	args := []any{"ACL", "SETUSER"}
	for _, rule := range append(strings.Fields(acl)[1:], "+select") {
		args = append(args, rule)
	}
	if err := s.admin().Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	auth := WithAuth("arith", "secret")
	register(t, open(t, s.target("a"), auth), instance("in 0"))
	register(t, open(t, s.target("a?db=2"), auth), instance("in 2"))
	look(t, Resolver(auth), s.target("a?db=2")).sees(time.Second, "in 2")
	look(t, Resolver(auth), s.target("a?db=0")).sees(time.Second, "in 0")
}
