package identity_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/identity"
)

// provider is an issuer of tokens, over real HTTPS.
type provider struct {
	*httptest.Server

	mu      sync.Mutex
	keys    map[string]*ecdsa.PrivateKey
	down    bool
	fetched atomic.Int64
	holdFor chan struct{} // answers wait for it; nil for none
}

const keysPath = "/oauth/keys"

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{keys: map[string]*ecdsa.PrivateKey{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if p.isDown() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + keysPath, "authorization_endpoint": p.URL, "token_endpoint": p.URL})
	})
	mux.HandleFunc("GET "+keysPath, p.serveKeys)
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) isDown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

func (p *provider) serveKeys(w http.ResponseWriter, r *http.Request) {
	p.fetched.Add(1)
	p.mu.Lock()
	hold, down := p.holdFor, p.down
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for id, k := range p.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{KeyID: id, Use: "sig", Algorithm: "ES256", Key: &k.PublicKey})
	}
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	if down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	text, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(text)
}

// set changes the provider.
func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// add makes a key with that ID.
func (p *provider) add(t testing.TB, id string) *ecdsa.PrivateKey {
	t.Helper()
	k := newKey(t)
	p.set(func() { p.keys[id] = k })
	return k
}

func (p *provider) token(t testing.TB, id string, changes ...any) string {
	t.Helper()
	p.mu.Lock()
	k := p.keys[id]
	p.mu.Unlock()
	return sign(t, jwt.SigningMethodES256, k, id, claims(append([]any{"iss", p.URL}, changes...)...))
}

func (p *provider) verifier(t testing.TB, change func(*identity.Config)) *identity.Verifier {
	t.Helper()
	cfg := identity.Config{Issuer: p.URL, Audiences: []string{"shop"}, Keys: identity.Discovery(), Client: p.Client()}
	if change != nil {
		change(&cfg)
	}
	v, err := identity.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func ready(t testing.TB, v *identity.Verifier) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := v.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

// A provider's keys are found by discovery. A token with a new key has them fetched, once for all calls
// that wait; a flood of tokens with invented keys has them fetched no more often than MinRefresh.
func TestRotationFetchesKeysOnce(t *testing.T) {
	p := newProvider(t)
	p.add(t, "k1")
	v := p.verifier(t, func(c *identity.Config) { c.MinRefresh = 300 * time.Millisecond })
	ready(t, v)
	if who, err := v.Verify(t.Context(), p.token(t, "k1")); err != nil || who.Name != "ada" || who.Issuer != p.URL {
		t.Fatalf("%+v, %v", who, err)
	}
	time.Sleep(300 * time.Millisecond) // MinRefresh: the keys may be fetched again then
	p.add(t, "k2")
	hold := make(chan struct{})
	p.set(func() { p.holdFor = hold })
	before := p.fetched.Load()
	var calls sync.WaitGroup
	var failed atomic.Int64
	for range 100 {
		token := p.token(t, "k2")
		calls.Go(func() {
			if _, err := v.Verify(t.Context(), token); err != nil {
				failed.Add(1)
			}
		})
	}
	eventually(t, "a fetch has begun", func() bool { return p.fetched.Load() > before })
	close(hold)
	calls.Wait()
	if n := p.fetched.Load() - before; failed.Load() != 0 || n != 1 {
		t.Errorf("%d of 100 calls failed, the keys were fetched %d times, want once", failed.Load(), n)
	}
	p.set(func() { p.holdFor = nil })

	stranger, began, before := newKey(t), time.Now(), p.fetched.Load()
	for i := range 500 {
		token := sign(t, jwt.SigningMethodES256, stranger, "made-up-"+string(rune('a'+i%26))+strings.Repeat("x", i), claims("iss", p.URL))
		if _, err := v.Verify(t.Context(), token); tandem.CodeOf(err) != tandem.Unauthenticated {
			t.Fatalf("an invented key: %v", err)
		}
	}
	if n, most := p.fetched.Load()-before, int64(time.Since(began)/(300*time.Millisecond))+1; n > most {
		t.Errorf("500 invented keys had the keys fetched %d times in %v, want at most %d", n, time.Since(began), most)
	}
}

// While the provider is away the keys that are known are used, until they are too old; a key that it has withdrawn
// does not count when it is back, also for a token that was seen before.
func TestProviderThatIsAway(t *testing.T) {
	p := newProvider(t)
	p.add(t, "k1")
	v := p.verifier(t, func(c *identity.Config) {
		c.Refresh, c.MinRefresh, c.MaxStale = 20*time.Millisecond, 20*time.Millisecond, 2*time.Second
	})
	ready(t, v)
	token, other := p.token(t, "k1"), p.token(t, "k1", "sub", "eve")
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.down = true })
	eventually(t, "the status has the failure", func() bool { return strings.Contains(v.Status().Error, "503") })
	for _, known := range []string{token, other} {
		if _, err := v.Verify(t.Context(), known); err != nil {
			t.Errorf("while the provider is away: %v", err)
		}
	}
	eventually(t, "the keys are too old", func() bool {
		_, err := v.Verify(t.Context(), token)
		return tandem.CodeOf(err) == tandem.Unavailable && !tandem.MayHaveExecuted(err)
	})
	p.add(t, "k2")
	p.set(func() { p.down = false; delete(p.keys, "k1") })
	eventually(t, "the new key counts", func() bool { _, err := v.Verify(t.Context(), p.token(t, "k2")); return err == nil })
	if _, err := v.Verify(t.Context(), token); tandem.CodeOf(err) != tandem.Unauthenticated {
		t.Errorf("with a withdrawn key: %v", err)
	}
	if s := v.Status(); s.Error != "" || s.Failures == 0 || s.Keys != 1 {
		t.Errorf("status %+v", s)
	}
}

// A server starts without the provider: New succeeds, calls are refused as Unavailable and not executed, Ready says
// why, and calls succeed when the provider is there.
func TestStartWithoutTheProvider(t *testing.T) {
	p := newProvider(t)
	p.add(t, "k1")
	p.set(func() { p.down = true })
	v := p.verifier(t, func(c *identity.Config) { c.MinRefresh = 50 * time.Millisecond })
	for range 3 {
		if _, err := v.Verify(t.Context(), p.token(t, "k1")); tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
			t.Errorf("without keys: %v", err)
		}
	}
	if _, err := v.Verify(t.Context(), "nonsense"); tandem.CodeOf(err) != tandem.Unauthenticated {
		t.Errorf("a malformed token without keys: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := v.Ready(ctx); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("Ready says %v", err)
	}
	p.set(func() { p.down = false })
	ready(t, v)
	if _, err := v.Verify(t.Context(), p.token(t, "k1")); err != nil {
		t.Errorf("when the provider is there: %v", err)
	}
}

// Calls that wait for a provider that does not answer are bounded, and end with their context.
func TestSilentProviderHoldsFewCalls(t *testing.T) {
	p := newProvider(t)
	p.add(t, "k1")
	hold := make(chan struct{})
	p.set(func() { p.holdFor = hold })
	defer close(hold)
	v := p.verifier(t, nil)
	eventually(t, "a fetch has begun", func() bool { return p.fetched.Load() > 0 })
	ctx, cancel := context.WithCancel(t.Context())
	token := p.token(t, "k1")
	refused := make(chan error, 500)
	for range 500 {
		go func() { _, err := v.Verify(ctx, token); refused <- err }()
	}
	for range 500 - 128 {
		if err := <-refused; tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "too many") {
			t.Fatalf("beyond those that may wait: %v", err)
		}
	}
	cancel()
	for range 128 {
		if err := <-refused; tandem.CodeOf(err) != tandem.Unavailable {
			t.Fatalf("after the end of the context: %v", err)
		}
	}
}

// Keys come over HTTPS, also after a redirect, from the issuer that the server is told to trust, and are not endless.
func TestKeysThatAreNotFetched(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys": []}`)) }))
	t.Cleanup(plain.Close)
	answers := map[string]http.HandlerFunc{
		"is not https": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) },
		"too long":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) },
		"404":          http.NotFound,
		"neither PEM":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"secret key": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}`))
		},
	}
	for want, answer := range answers {
		s := httptest.NewTLSServer(answer)
		t.Cleanup(s.Close)
		checkNotReady(t, want, identity.Config{Issuer: issuer, Keys: identity.URL(s.URL + "/keys"), Client: s.Client()})
	}
	wrong := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"issuer": "https://evil.example", "jwks_uri": "https://evil.example/keys"}`))
	}))
	t.Cleanup(wrong.Close)
	checkNotReady(t, "evil.example", identity.Config{Issuer: wrong.URL, Keys: identity.Discovery(), Client: wrong.Client()})
}

// checkNotReady checks that a verifier gets no keys, and says why.
func checkNotReady(t *testing.T, want string, cfg identity.Config) {
	t.Helper()
	cfg.Audiences, cfg.MinRefresh = []string{"shop"}, 10*time.Millisecond
	v, err := identity.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	eventually(t, "an error with "+want, func() bool { return strings.Contains(v.Status().Error, want) })
	if s := v.Status(); s.Keys != 0 || s.Failures == 0 {
		t.Errorf("%s: %+v", want, s)
	}
}
