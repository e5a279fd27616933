package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Keys says where the public keys of an issuer are from: [File], [URL] or [Discovery].
type Keys struct{ kind, where string }

// File returns the keys in a file: PEM with public keys or certificates, a JWK, or a JWK set. It
// is read again every second, and what can't be read or has no key leaves the keys before. A key of PEM
// has no ID, so it is tried for every token of its algorithm.
func File(path string) Keys { return Keys{"file", path} }

// URL returns the keys of a JWK set at an https address.
func URL(address string) Keys { return Keys{"url", address} }

// Discovery returns the keys that the issuer names in its OpenID configuration, at
// Config.Issuer + "/.well-known/openid-configuration".
func Discovery() Keys { return Keys{"discovery", ""} }

// reader returns the function that reads the keys.
func (k Keys) reader(cfg *Config) (func(ctx context.Context) ([]byte, error), error) {
	if k.kind == "file" {
		return func(context.Context) ([]byte, error) { return readFile(k.where, maxKeyBytes) }, nil
	}
	f := &fetcher{client: guarded(cfg), address: k.where}
	first := k.where
	if k.kind == "discovery" {
		first, f.issuer = cfg.Issuer, cfg.Issuer
	}
	u, err := url.Parse(first)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !cfg.Insecure) {
		return nil, fmt.Errorf("keys at %.200q: want an https address, or Config.Insecure", first)
	}
	return f.fetch, nil
}

// readFile reads a file of at most that many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// fetcher gets a JWK set by HTTP. One goroutine uses it.
type fetcher struct {
	client  *http.Client
	issuer  string // to discover the address; "" if it is known
	address string // of the set; "" until it is discovered
}

func (f *fetcher) fetch(ctx context.Context) ([]byte, error) {
	if f.address == "" {
		provider, err := oidc.NewProvider(oidc.ClientContext(ctx, f.client), f.issuer)
		if err != nil {
			return nil, err
		}
		var found struct {
			Address string `json:"jwks_uri"`
		}
		if err := provider.Claims(&found); err != nil || found.Address == "" {
			return nil, fmt.Errorf("the OpenID configuration of %s has no jwks_uri", f.issuer)
		}
		f.address = found.Address
	}
	text, err := f.get(ctx)
	if err != nil && f.issuer != "" {
		f.address = "" // it may have moved
	}
	return text, err
}

func (f *fetcher) get(ctx context.Context) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := f.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", f.address, res.Status)
	}
	return io.ReadAll(res.Body)
}

// guarded returns the config's client with bounds that hold for redirects and discovery, too.
func guarded(cfg *Config) *http.Client {
	c := http.Client{}
	if cfg.Client != nil {
		c = *cfg.Client
	}
	inner := c.Transport
	if inner == nil {
		inner = http.DefaultTransport
	}
	c.Transport = &guard{inner, cfg.Insecure}
	return &c
}

// guard refuses plain HTTP and bounds answers.
type guard struct {
	inner    http.RoundTripper
	insecure bool
}

// RoundTrip makes a request over HTTPS.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !g.insecure {
		return nil, fmt.Errorf("%s is not https: keys could be changed on their way: Config.Insecure allows it", r.URL.Redacted())
	}
	res, err := g.inner.RoundTrip(r)
	if err == nil {
		res.Body = &boundedBody{res.Body, maxKeyBytes}
	}
	return res, err
}

var errLong = errors.New("the answer is too long")

// boundedBody fails after that many bytes.
type boundedBody struct {
	io.ReadCloser

	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errLong
	}
	return n, err
}
