// Package tlsfiles (experimental) keeps the TLS configuration of servers and clients up to date with files: a
// certificate, its key, and the authorities of peers, which other programs replace while calls are
// made, such as cert-manager, SPIRE's helper, or Kubernetes for a mounted secret.
//
//	files, err := tlsfiles.Open(tlsfiles.Config{Certificate: "tls.crt", Key: "tls.key", Roots: "ca.crt"})
//	srv := server.New(server.WithTLS(files.Server()))
//	c, err := client.Dial(target, client.WithTLSFrom(files.Client))
//	defer files.Close()
//
// New connections use the files as they are now; open ones stay as they are, and
// server.WithMaxConnectionAge bounds their age. Files that can't be read, don't fit together, or
// hold a certificate that is not valid now, change nothing: the log and the [Status] say so until they can.
package tlsfiles

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Config names the files. All are PEM.
type Config struct {
	// Certificate begins with the own certificate; those of intermediate authorities follow. Both are
	// empty for a client without a certificate.
	Certificate, Key string
	// Roots are the authorities that peers are verified by. If it is empty, a client trusts those of the system,
	// and a server asks for no certificates.
	Roots string
	// OptionalClients makes a server accept clients without a certificate. One that is shown is verified.
	OptionalClients bool
	// Peers are the SPIFFE ids that peers may have: "spiffe://shop/cart", or "spiffe://shop/*" for a whole
	// trust domain. With it a certificate must have one of these as its only URI, and a client does not compare the
	// host of the address. It needs Roots.
	Peers []string
	// Base has further settings, such as NextProtos; nil for none. Certificates and authorities in it have no effect.
	Base *tls.Config

	Every  time.Duration // how often the files are read; 5 s by default
	Logger *slog.Logger  // for reloads and what prevents them; none by default
}

const (
	defaultEvery = 5 * time.Second
	maxFile      = 1 << 20 // bytes
)

// Status says what is in use, and whether the files have been read since.
type Status struct {
	Certificate  string    // path of the file; "" for none
	Expires      time.Time // when the certificate in use expires; zero for none
	RootsExpire  time.Time // when the first of the authorities expires; zero for none
	Loaded       time.Time // when what is in use was read
	Reloads      uint64    // changes since Open
	Failures     uint64    // changes that could not be used; each is counted once
	Error        string    // why what is in the files now is not in use; "" if it is
	SerialNumber string    // of the certificate in use, in hexadecimal
}

// Files is a TLS configuration that follows files. It is safe for concurrent use.
type Files struct {
	cfg  Config
	now  atomic.Pointer[loaded]
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	status Status
	seen   [3][]byte // what the last reload has looked at, successful or not
}

// loaded is what one reading of the files has brought. It does not change.
type loaded struct{ server, client *tls.Config }

// Open reads the files, and follows them until Close. It fails if they can't be used.
func Open(cfg Config) (*Files, error) {
	f := &Files{cfg: cfg, done: make(chan struct{})}
	if err := f.complete(); err != nil {
		return nil, fmt.Errorf("tlsfiles: %w", err)
	}
	if err := f.reload(time.Now()); err != nil {
		return nil, fmt.Errorf("tlsfiles: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go f.follow(ctx)
	return f, nil
}

// complete checks the config and fills in its defaults.
func (f *Files) complete() error {
	c := &f.cfg
	if c.Every = cmp.Or(c.Every, defaultEvery); c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Base == nil {
		c.Base = &tls.Config{}
	}
	c.Base = c.Base.Clone()
	c.Base.Certificates, c.Base.RootCAs, c.Base.ClientCAs, c.Base.ClientAuth = nil, nil, nil, tls.NoClientCert
	c.Base.GetConfigForClient, c.Base.GetCertificate, c.Base.GetClientCertificate = nil, nil, nil
	c.Base.MinVersion = max(c.Base.MinVersion, tls.VersionTLS12)
	switch {
	case (c.Certificate == "") != (c.Key == ""):
		return errors.New("Config has a certificate without a key, or a key without a certificate")
	case c.Certificate == "" && c.Roots == "":
		return errors.New("Config names no file")
	case c.Base.InsecureSkipVerify:
		return errors.New("Config.Base.InsecureSkipVerify would accept every peer")
	case c.Every < 0:
		return errors.New("Config.Every is negative")
	case len(c.Peers) > 0 && c.Roots == "":
		return errors.New("Config.Peers needs Roots: the system's authorities issue no SPIFFE ids")
	}
	f.status.Certificate = c.Certificate
	return checkPeers(c.Peers)
}

// Close stops following the files. What is in use stays.
func (f *Files) Close() {
	f.stop()
	<-f.done
}

func (f *Files) follow(ctx context.Context) {
	defer close(f.done)
	tick := time.NewTicker(f.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			_ = f.reload(now) // the status has the error
		case <-ctx.Done():
			return
		}
	}
}

// Status returns the present state.
func (f *Files) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// reload reads the files, and uses them if they have changed and can be used.
func (f *Files) reload(now time.Time) error {
	texts, err := f.read()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.seen = [3][]byte{} // the same texts count as new when they are back
		return f.failed(err)
	}
	if same(texts, f.seen) && f.status.Error == "" {
		return nil
	}
	if again, err := f.read(); err != nil || !same(texts, again) {
		return errors.Join(errReplaced, err) // the next reload sees them whole
	}
	l, status, err := f.load(texts, now)
	f.seen = texts
	if err != nil {
		return f.failed(err)
	}
	if f.now.Swap(l) != nil {
		status.Reloads = f.status.Reloads + 1
		f.cfg.Logger.Info("TLS certificates were replaced", "certificate", status.Certificate, "serial", status.SerialNumber, "expires", status.Expires)
	}
	status.Failures = f.status.Failures
	f.status = status
	return nil
}

var errReplaced = errors.New("the files were replaced while they were read: try again")

// read reads the files.
func (f *Files) read() (texts [3][]byte, err error) {
	for i, path := range []string{f.cfg.Certificate, f.cfg.Key, f.cfg.Roots} {
		if path == "" {
			continue
		}
		if texts[i], err = readFile(path); err != nil {
			return texts, err
		}
	}
	return texts, nil
}

// failed records why the files are not in use. The mutex is held.
func (f *Files) failed(err error) error {
	if text := err.Error(); text != f.status.Error {
		f.status.Error = text
		f.status.Failures++
		f.cfg.Logger.Error("TLS certificates were not replaced: those before are used", "error", err, "expires", f.status.Expires)
	}
	return err
}

func same(a, b [3][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func readFile(path string) ([]byte, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

// load makes the configurations from the texts of the files.
func (f *Files) load(texts [3][]byte, now time.Time) (*loaded, Status, error) {
	status := Status{Certificate: f.cfg.Certificate, Loaded: now}
	base := f.cfg.Base.Clone()
	if f.cfg.Certificate != "" {
		pair, err := tls.X509KeyPair(texts[0], texts[1])
		if err != nil {
			return nil, status, fmt.Errorf("%s and %s: %w", f.cfg.Certificate, f.cfg.Key, err)
		}
		if err := inTime(pair.Leaf, now); err != nil {
			return nil, status, fmt.Errorf("%s: %w", f.cfg.Certificate, err)
		}
		base.Certificates = []tls.Certificate{pair}
		status.Expires, status.SerialNumber = pair.Leaf.NotAfter, fmt.Sprintf("%x", pair.Leaf.SerialNumber)
	}
	server, client := base.Clone(), base.Clone()
	if f.cfg.Roots != "" {
		roots, expire, err := parseRoots(texts[2], now)
		if err != nil {
			return nil, status, fmt.Errorf("%s: %w", f.cfg.Roots, err)
		}
		status.RootsExpire = expire
		f.verify(server, client, roots)
	}
	return &loaded{server, client}, status, nil
}

func inTime(c *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(c.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s", c.NotBefore.Format(time.RFC3339))
	case now.After(c.NotAfter):
		return fmt.Errorf("the certificate expired at %s", c.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// parseRoots reads the certificates of authorities. It leaves out those that have expired, but one must be left.
func parseRoots(text []byte, now time.Time) (roots *x509.CertPool, expire time.Time, err error) {
	roots = x509.NewCertPool()
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, expire, fmt.Errorf("a PEM block %.50q: want certificates alone", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, expire, err
		}
		if now.After(c.NotAfter) {
			continue
		}
		roots.AddCert(c)
		if expire.IsZero() || c.NotAfter.Before(expire) {
			expire = c.NotAfter
		}
	}
	if expire.IsZero() {
		return nil, expire, errors.New("there is no certificate of an authority that is valid now")
	}
	return roots, expire, nil
}
