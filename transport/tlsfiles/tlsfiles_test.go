package tlsfiles_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport/tlsfiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder has the files of one side.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// write replaces a file as its owner should: as a whole.
func (f folder) write(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(f.path(name+".new"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.path(name+".new"), f.path(name)); err != nil {
		t.Fatal(err)
	}
}

func (f folder) put(t testing.TB, leaf *testcert.Leaf, roots ...[]byte) {
	t.Helper()
	f.write(t, "tls.crt", leaf.CertPEM)
	f.write(t, "tls.key", leaf.KeyPEM)
	if len(roots) > 0 {
		f.write(t, "ca.crt", bytes.Join(roots, nil))
	}
}

// config returns one that reads the folder often.
func (f folder) config() tlsfiles.Config {
	return tlsfiles.Config{Certificate: f.path("tls.crt"), Key: f.path("tls.key"), Roots: f.path("ca.crt"), Every: 5 * time.Millisecond}
}

func open(t testing.TB, cfg tlsfiles.Config) *tlsfiles.Files {
	t.Helper()
	f, err := tlsfiles.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// serve starts a server whose method answers with the serial number of its caller's certificate.
func serve(t testing.TB, config *tls.Config, opts ...server.Option) string {
	t.Helper()
	srv := server.New(append(opts, server.WithTLS(config), server.WithProtocols(all.New()...), server.WithLogger(slog.New(slog.DiscardHandler)))...)
	err := server.Handle(srv, "Who.Calls", func(ctx context.Context, _ *int) (*string, error) {
		serial := ""
		if list := tandem.FromContext(ctx).Peer.TLS.PeerCertificates; len(list) > 0 {
			serial = list[0].SerialNumber.Text(16)
		}
		return &serial, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	return ln.Addr().String()
}

func dial(t testing.TB, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(target, append(opts, client.WithProtocols(all.Clients()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("it was not so in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // files have no other clock
	}
}

// serialOf returns what a new connection shows: the serial number of the server's certificate.
func serialOf(address string, config *tls.Config) string {
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Text(16)
}

// Certificates, and then the authority itself, are replaced on both sides while calls are made: none fails,
// and new connections show the new certificates.
func TestRotationUnderTrafficFailsNoCall(t *testing.T) {
	old, next := testcert.NewAuthority(t, "old"), testcert.NewAuthority(t, "next")
	at, by := folder(t.TempDir()), folder(t.TempDir())
	issue := func(a *testcert.Authority, f folder, id string, roots ...[]byte) string {
		leaf := a.Issue(t, nil, id)
		f.put(t, leaf, roots...)
		return leaf.Leaf.SerialNumber.Text(16)
	}
	issue(old, at, "spiffe://shop/stock", old.PEM())
	issue(old, by, "spiffe://shop/cart", old.PEM())
	serving, calling := at.config(), by.config()
	serving.Peers, calling.Peers = []string{"spiffe://shop/cart"}, []string{"spiffe://shop/*"}
	servers, clients := open(t, serving), open(t, calling)
	address := serve(t, servers.Server(), server.WithMaxConnectionAge(100*time.Millisecond, 10*time.Second))
	c := dial(t, "tcp://"+address, client.WithTLSFrom(clients.Client), client.WithFailMode(client.Failtry), client.WithTimeout(20*time.Second))

	var calls, failures atomic.Int64
	var last atomic.Pointer[string]
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var serial string
				if err := c.Call(t.Context(), "Who.Calls", 1, &serial); err != nil {
					failures.Add(1)
					t.Errorf("a call failed: %v", err)
					return
				}
				calls.Add(1)
				last.Store(&serial)
			}
		})
	}
	seen := func(server, client string) {
		t.Helper()
		eventually(t, "new connections show the new certificates", func() bool {
			config, _ := clients.Client()
			return failures.Load() > 0 || serialOf(address, config) == server && last.Load() != nil && *last.Load() == client
		})
	}
	for range 3 {
		seen(issue(old, at, "spiffe://shop/stock"), issue(old, by, "spiffe://shop/cart"))
	}
	both := [][]byte{old.PEM(), next.PEM()}
	before := servers.Status().Reloads + clients.Status().Reloads
	at.write(t, "ca.crt", bytes.Join(both, nil))
	by.write(t, "ca.crt", bytes.Join(both, nil))
	eventually(t, "both sides trust both authorities", func() bool { return servers.Status().Reloads+clients.Status().Reloads == before+2 })
	seen(issue(next, at, "spiffe://shop/stock"), issue(next, by, "spiffe://shop/cart"))
	at.write(t, "ca.crt", next.PEM())
	by.write(t, "ca.crt", next.PEM())
	seen(issue(next, at, "spiffe://shop/stock"), issue(next, by, "spiffe://shop/cart"))
	close(stop)
	callers.Wait()
	if calls.Load() < 20 || failures.Load() > 0 {
		t.Errorf("%d calls, %d failed", calls.Load(), failures.Load())
	}
	t.Logf("%d calls over %d and %d reloads", calls.Load(), servers.Status().Reloads, clients.Status().Reloads)
}

// What can't be used leaves the old certificates in use. The status and the log say so, once, until it can.
func TestBrokenFilesKeepTheOldOnes(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	good := ca.Issue(t, nil)
	late := ca.Issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	early := ca.Issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) })
	for want, spoil := range map[string]func(f folder){
		"failed to find any PEM":     func(f folder) { f.write(t, "tls.crt", []byte("oops")) },
		"private key does not match": func(f folder) { f.write(t, "tls.key", late.KeyPEM) },
		"no such file":               func(f folder) { _ = os.Remove(f.path("tls.key")) },
		"expired at":                 func(f folder) { f.put(t, late) },
		"not valid before":           func(f folder) { f.put(t, early) },
		"no certificate of an auth":  func(f folder) { f.write(t, "ca.crt", nil) },
		"want certificates alone":    func(f folder) { f.write(t, "ca.crt", good.KeyPEM) },
		"x509: malformed": func(f folder) {
			f.write(t, "ca.crt", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
		},
		"has more than 1048576 bytes": func(f folder) { f.write(t, "ca.crt", make([]byte, 2<<20)) },
	} {
		t.Run(want, func(t *testing.T) {
			dir := folder(t.TempDir())
			dir.put(t, good, ca.PEM())
			var log lockedBuffer
			cfg := dir.config()
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			f := open(t, cfg)
			address := serve(t, f.Server())
			serial := good.Leaf.SerialNumber.Text(16)
			spoil(dir)
			eventually(t, "the status has an error", func() bool { return strings.Contains(f.Status().Error, want) })
			config, _ := f.Client()
			if got := serialOf(address, config); got != serial {
				t.Errorf("the server shows %s, want %s", got, serial)
			}
			if s := f.Status(); s.SerialNumber != serial || !s.Expires.Equal(good.Leaf.NotAfter) || s.Failures == 0 || s.Reloads != 0 {
				t.Errorf("status %+v", s)
			}
			time.Sleep(5 * cfg.Every) // it must not be said at each reading
			if text := log.String(); strings.Count(text, want) != 1 {
				t.Errorf("the log says %s", text)
			}
			fresh := ca.Issue(t, nil)
			dir.put(t, fresh, ca.PEM())
			eventually(t, "the next certificate is used", func() bool {
				return f.Status().SerialNumber == fresh.Leaf.SerialNumber.Text(16) && f.Status().Error == ""
			})
			if text := log.String(); !strings.Contains(text, "were replaced") {
				t.Errorf("the log says %s", text)
			}
		})
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Open refuses files and configs that can't be used.
func TestOpenRefuses(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	dir := folder(t.TempDir())
	dir.put(t, ca.Issue(t, nil), ca.PEM())
	for want, change := range map[string]func(c *tlsfiles.Config){
		"no such file":             func(c *tlsfiles.Config) { c.Roots += ".nope" },
		"without a key":            func(c *tlsfiles.Config) { c.Key = "" },
		"names no file":            func(c *tlsfiles.Config) { *c = tlsfiles.Config{} },
		"needs Roots":              func(c *tlsfiles.Config) { c.Roots, c.Peers = "", []string{"spiffe://shop/*"} },
		"negative":                 func(c *tlsfiles.Config) { c.Every = -1 },
		"InsecureSkipVerify":       func(c *tlsfiles.Config) { c.Base = &tls.Config{InsecureSkipVerify: true} },
		`"shop"`:                   func(c *tlsfiles.Config) { c.Peers = []string{"shop"} },
		`"spiffe://shop/web/*"`:    func(c *tlsfiles.Config) { c.Peers = []string{"spiffe://shop/web/*"} },
		`"spiffe://*/cart"`:        func(c *tlsfiles.Config) { c.Peers = []string{"spiffe://*/cart"} },
		`"spiffe://shop/c*"`:       func(c *tlsfiles.Config) { c.Peers = []string{"spiffe://shop/c*"} },
		`"spiffe://shop/../admin"`: func(c *tlsfiles.Config) { c.Peers = []string{"spiffe://shop/../admin"} },
	} {
		cfg := dir.config()
		change(&cfg)
		if f, err := tlsfiles.Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				f.Close()
			}
		}
	}
}

// Each side accepts the ids of its list only, whatever its authorities have signed.
func TestPeersAreVerified(t *testing.T) {
	ca, stranger := testcert.NewAuthority(t, "ca"), testcert.NewAuthority(t, "stranger")
	at := folder(t.TempDir())
	for name, c := range map[string]struct {
		leaf           *testcert.Leaf // of the client
		serves         string         // id of the server
		accepts, wants []string       // by the server, by the client
		fails          bool
	}{
		"both are listed":            {ca.Issue(t, nil, "spiffe://shop/cart"), "spiffe://shop/stock", []string{"spiffe://shop/cart"}, []string{"spiffe://shop/stock"}, false},
		"whole domains":              {ca.Issue(t, nil, "spiffe://shop/cart"), "spiffe://shop/stock", []string{"spiffe://shop/*"}, []string{"spiffe://shop/*"}, false},
		"another client":             {ca.Issue(t, nil, "spiffe://shop/cart2"), "spiffe://shop/stock", []string{"spiffe://shop/cart"}, []string{"spiffe://shop/*"}, true},
		"another domain":             {ca.Issue(t, nil, "spiffe://shop.evil/cart"), "spiffe://shop/stock", []string{"spiffe://shop/*"}, []string{"spiffe://shop/*"}, true},
		"two ids":                    {ca.Issue(t, nil, "spiffe://shop/cart", "spiffe://shop/x"), "spiffe://shop/stock", []string{"spiffe://shop/*"}, []string{"spiffe://shop/*"}, true},
		"no id":                      {ca.Issue(t, nil), "spiffe://shop/stock", []string{"spiffe://shop/*"}, []string{"spiffe://shop/*"}, true},
		"another authority":          {stranger.Issue(t, nil, "spiffe://shop/cart"), "spiffe://shop/stock", []string{"spiffe://shop/*"}, []string{"spiffe://shop/*"}, true},
		"another server":             {ca.Issue(t, nil, "spiffe://shop/cart"), "spiffe://shop/bank", []string{"spiffe://shop/*"}, []string{"spiffe://shop/stock"}, true},
		"no list, the host is right": {ca.Issue(t, nil), "spiffe://shop/stock", nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			at.put(t, ca.Issue(t, nil, c.serves), ca.PEM())
			by := folder(t.TempDir())
			by.put(t, c.leaf, ca.PEM())
			serving, calling := at.config(), by.config()
			serving.Peers, calling.Peers = c.accepts, c.wants
			address := serve(t, open(t, serving).Server())
			conn := dial(t, "tcp://"+address, client.WithTLSFrom(open(t, calling).Client), client.WithWait(300*time.Millisecond))
			err := conn.Call(t.Context(), "Who.Calls", 1, new(string))
			if (err != nil) != c.fails {
				t.Errorf("%v, want a failure: %v", err, c.fails)
			}
		})
	}
}

// A host that the certificate is not for is refused, also by its address, and after a reload.
func TestHostsAreVerified(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	elsewhere := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 9)} }
	at, by := folder(t.TempDir()), folder(t.TempDir())
	at.put(t, ca.Issue(t, elsewhere), ca.PEM())
	by.put(t, ca.Issue(t, nil), ca.PEM())
	address := serve(t, open(t, at.config()).Server())
	c := dial(t, "tcp://"+address, client.WithTLSFrom(open(t, by.config()).Client), client.WithWait(300*time.Millisecond))
	if err := c.Call(t.Context(), "Who.Calls", 1, new(string)); tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "127.0.0.9") {
		t.Errorf("the wrong host: %v", err)
	}
}

// A session that began under an authority which is trusted no longer is not resumed.
func TestResumedSessionsAreVerified(t *testing.T) {
	old, next := testcert.NewAuthority(t, "old"), testcert.NewAuthority(t, "next")
	at := folder(t.TempDir())
	at.put(t, old.Issue(t, nil), old.PEM())
	f := open(t, at.config())
	address := serve(t, f.Server())
	config := &tls.Config{
		RootCAs: old.Pool(), Certificates: []tls.Certificate{old.Issue(t, nil).Certificate}, ClientSessionCache: tls.NewLRUClientSessionCache(1), MinVersion: tls.VersionTLS13,
	}
	handshake := func() (resumed bool, err error) {
		c, err := tls.Dial("tcp", address, config)
		if err != nil {
			return false, err
		}
		defer c.Close()
		// A ticket, and the refusal of a certificate, come after the client's handshake.
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")); err != nil {
			return false, err
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err = c.Read(make([]byte, 1))
		return c.ConnectionState().DidResume, err
	}
	if _, err := handshake(); err != nil {
		t.Fatal(err)
	}
	if resumed, err := handshake(); err != nil || !resumed {
		t.Fatalf("resumed %v, %v: nothing is tested", resumed, err)
	}
	at.write(t, "ca.crt", next.PEM())
	eventually(t, "the new authority is used", func() bool { return f.Status().Reloads == 1 })
	if resumed, err := handshake(); err == nil {
		t.Errorf("a client of the old authority was accepted; resumed: %v", resumed)
	}
}

// All protocols are offered in handshakes with the files' configuration: gRPC over TLS needs "h2".
func TestProtocolsAreOffered(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	dir := folder(t.TempDir())
	dir.put(t, ca.Issue(t, nil), ca.PEM())
	f := open(t, dir.config())
	address := serve(t, f.Server())
	config, _ := f.Client()
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("negotiated %q", got)
	}
	grpc := dial(t, "grpc://"+address, client.WithTLSFrom(f.Client), client.WithCodec(codec.JSON()))
	if err := grpc.Call(t.Context(), "Who.Calls", 1, new(string)); err != nil {
		t.Error(err)
	}
}

// The id of a certificate from files is the caller's name.
func TestSPIFFEIdentity(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	dir := folder(t.TempDir())
	dir.put(t, ca.Issue(t, nil, "spiffe://shop/cart"), ca.PEM())
	cfg := dir.config()
	cfg.Peers = []string{"spiffe://shop/*"}
	f := open(t, cfg)
	var who atomic.Pointer[auth.Principal]
	note := auth.RequireCall("*", func(_ context.Context, call *tandem.Call) error {
		who.Store(auth.PrincipalOf(call))
		return nil
	})
	address := serve(t, f.Server(), server.WithPlugins(auth.New(auth.SPIFFE("shop"), note)))
	c := dial(t, "tcp://"+address, client.WithTLSFrom(f.Client))
	if err := c.Call(t.Context(), "Who.Calls", 1, new(string)); err != nil || who.Load().Name != "spiffe://shop/cart" || who.Load().Issuer != "shop" {
		t.Errorf("%v, %+v", err, who.Load())
	}
}
