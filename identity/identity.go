// Package identity (experimental) says who calls, by JSON Web Tokens: a server checks those that callers
// send, on every protocol, and a client sends its own and renews it.
//
//	tokens, err := identity.New(identity.Config{
//		Issuer:    "https://login.example.com",
//		Audiences: []string{"orders"},
//		Keys:      identity.Discovery(),
//	})
//	srv := server.New(server.WithPlugins(auth.New(auth.Any(tokens, auth.SPIFFE("shop")))))
//
// A Verifier is an [auth.Authenticator]: the identity of its callers is an [*auth.Principal], with
// the name, the tenant and the claims of the token, for handlers (auth.Identity) and for rules
// (package plugin/authz). It needs no connection to the issuer while calls are made: keys are kept,
// and renewed in the background.
package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/auth"
)

// Config says which tokens a [Verifier] accepts. Issuer, Audiences and Keys are required.
type Config struct {
	Issuer    string   // the "iss" of tokens, exactly
	Audiences []string // a token's "aud" must have one of these
	Keys      Keys     // the public keys of the issuer

	// Algorithms are those that tokens may be signed with; RS256, ES256 and EdDSA by default. RS384,
	// RS512, PS256, PS384, PS512, ES384 and ES512 are known, too. "none" and those with a shared
	// secret are not.
	Algorithms []string
	// Leeway is how much the clocks of issuer and server may differ; 30 s by default, 5 minutes at most.
	Leeway time.Duration

	NameClaim   string // the claim with the caller's name, a text; "sub" by default. A path as for auth.Principal.Claim
	TenantClaim string // the claim with the tenant; "" for none. A token without it has no tenant
	// TrustDomains are those whose SPIFFE ids tokens may have as names. Other tokens with a name
	// that begins with "spiffe:" are refused, so that no issuer of tokens can name a certificate's owner.
	TrustDomains []string

	// The rest is for keys with an address. A file is read again every second.

	// Refresh is how often keys are fetched; 5 minutes by default. A token with an unknown key ID
	// has them fetched at once, but not more often than each MinRefresh, 10 s by default, which is also how
	// long after a failure they are tried again.
	Refresh, MinRefresh time.Duration
	// MaxStale is how long keys are used while the issuer can't be reached; 24 h by default. After
	// that all tokens are refused, as a key that was withdrawn may be among them.
	MaxStale time.Duration
	Client   *http.Client // http.Client{} by default; an answer has 5 s in any case
	Insecure bool         // fetch keys over plain HTTP, too: an attacker on the way can then name any caller

	Logger *slog.Logger // for what becomes of the keys; none by default
}

// The limits of what is checked.
const (
	maxToken  = 16 << 10 // bytes
	maxLeeway = 5 * time.Minute
)

// algorithms are those that Config.Algorithms may have.
var algorithms = []string{"RS256", "ES256", "EdDSA", "RS384", "RS512", "PS256", "PS384", "PS512", "ES384", "ES512"} //nolint:gochecknoglobals // never changed

const defaultAlgorithms = 3 // the first of them

// Verifier checks tokens. It is an [auth.Authenticator], safe for concurrent use.
type Verifier struct {
	cfg    Config
	bearer auth.Authenticator
	parser *jwt.Parser
	keys   *keeper
	cache  cache
	now    func() time.Time
}

// New returns a Verifier. It returns an error for a config that can't be right, and for a file of
// keys that can't be read. It does not wait for keys that have to be fetched: until they are
// there, calls with tokens are refused as Unavailable; see [Verifier.Ready].
func New(cfg Config) (*Verifier, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	v := &Verifier{cfg: cfg, now: time.Now}
	v.bearer = auth.Bearer(v.verify)
	v.parser = jwt.NewParser(
		jwt.WithValidMethods(cfg.Algorithms), jwt.WithIssuer(cfg.Issuer), jwt.WithAudience(cfg.Audiences...), jwt.WithExpirationRequired(),
		jwt.WithLeeway(cfg.Leeway), jwt.WithIssuedAt(), jwt.WithJSONNumber(), jwt.WithTimeFunc(func() time.Time { return v.now() }), jwt.WithStrictDecoding(),
	)
	keys, err := startKeeper(&v.cfg)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	v.keys = keys
	return v, nil
}

// complete checks the config and fills in its defaults.
func (c *Config) complete() error {
	c.Leeway, c.NameClaim = cmp.Or(c.Leeway, 30*time.Second), cmp.Or(c.NameClaim, "sub") //nolint:mnd // as documented
	c.Refresh, c.MinRefresh, c.MaxStale = cmp.Or(c.Refresh, 5*time.Minute), cmp.Or(c.MinRefresh, 10*time.Second), cmp.Or(c.MaxStale, 24*time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.Algorithms) == 0 {
		c.Algorithms = algorithms[:defaultAlgorithms]
	}
	switch {
	case c.Issuer == "":
		return errors.New("Config.Issuer is empty: the owner of any of the keys could name any caller")
	case len(c.Audiences) == 0 || slices.Contains(c.Audiences, ""):
		return errors.New("Config.Audiences is empty: tokens for other services would be accepted")
	case c.Leeway < 0 || c.Leeway > maxLeeway:
		return fmt.Errorf("Config.Leeway is %v: want at most %v", c.Leeway, maxLeeway)
	case c.Refresh < 0 || c.MinRefresh < 0 || c.MaxStale < 0:
		return errors.New("a time of the Config is negative")
	case c.Keys.kind == "":
		return errors.New("Config.Keys is empty: use File, URL or Discovery")
	}
	for _, alg := range c.Algorithms {
		if !slices.Contains(algorithms, alg) {
			return fmt.Errorf("Config.Algorithms has %q: want some of %s", alg, strings.Join(algorithms, ", "))
		}
	}
	return nil
}

// Close stops renewing the keys.
func (v *Verifier) Close() { v.keys.close() }

// Ready waits until there are keys. It returns the reason why there are none when ctx ends.
func (v *Verifier) Ready(ctx context.Context) error { return v.keys.ready(ctx) }

// Status returns the present state.
func (v *Verifier) Status() Status {
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	return v.keys.status
}

// Authenticate checks the bearer token of a call and returns its [*auth.Principal]. It returns
// [auth.ErrNoCredentials] for a call without one.
func (v *Verifier) Authenticate(ctx context.Context, call *tandem.Call) (any, error) {
	return v.bearer.Authenticate(ctx, call)
}

func (v *Verifier) verify(ctx context.Context, token string) (any, error) {
	p, err := v.Verify(ctx, token)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Verify checks a token. The error is Unauthenticated, or Unavailable if there are no keys.
func (v *Verifier) Verify(ctx context.Context, token string) (*auth.Principal, error) {
	if len(token) > maxToken {
		return nil, tandem.Errorf(tandem.Unauthenticated, "the token has more than %d bytes", maxToken)
	}
	keys, err := v.keys.current(v.now())
	if err != nil {
		return nil, err
	}
	if p := v.cache.get(token, keys, v.now()); p != nil {
		return p, nil
	}
	unverified, _, err := v.parser.ParseUnverified(token, jwt.MapClaims{})
	if err != nil {
		return nil, tandem.Errorf(tandem.Unauthenticated, "the token is malformed")
	}
	if err := v.checkHeader(unverified); err != nil {
		return nil, err
	}
	if id, _ := unverified.Header["kid"].(string); keys == nil || id != "" && !keys.has(id) {
		if keys, err = v.keys.newer(ctx, keys); err != nil {
			return nil, err
		}
	}
	return v.check(token, keys)
}

// checkHeader refuses tokens before their signature is looked at, and before keys are fetched for them.
func (v *Verifier) checkHeader(t *jwt.Token) error {
	alg, _ := t.Header["alg"].(string)
	if !slices.Contains(v.cfg.Algorithms, alg) {
		return tandem.Errorf(tandem.Unauthenticated, "the token's algorithm %.20q is not accepted here", alg)
	}
	if _, critical := t.Header["crit"]; critical {
		return tandem.Errorf(tandem.Unauthenticated, "the token has critical extensions, of which none is known here")
	}
	if issuer, _ := t.Claims.GetIssuer(); issuer != v.cfg.Issuer {
		return tandem.Errorf(tandem.Unauthenticated, "the token is of another issuer")
	}
	return nil
}

func (v *Verifier) check(token string, keys *keySet) (*auth.Principal, error) {
	claims := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		found := keys.find(id, t.Method.Alg())
		if len(found) == 0 {
			return nil, errors.New("no key")
		}
		set := jwt.VerificationKeySet{}
		for _, k := range found {
			set.Keys = append(set.Keys, k)
		}
		return set, nil
	})
	if err != nil {
		return nil, tandem.Errorf(tandem.Unauthenticated, "%s", reason(err))
	}
	p, err := v.principal(claims)
	if err != nil {
		return nil, err
	}
	if expires, _ := claims.GetExpirationTime(); expires != nil {
		v.cache.put(token, entry{p, keys, expires.Add(v.cfg.Leeway)})
	}
	return p, nil
}

// reason says why a token was refused. Nothing of the token is in it.
func reason(err error) string {
	for _, known := range []struct {
		err  error
		text string
	}{
		{jwt.ErrTokenUnverifiable, "the token's key is not known here"},
		{jwt.ErrTokenSignatureInvalid, "the token's signature is not valid"},
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
		{jwt.ErrTokenUsedBeforeIssued, "the token was issued in the future"},
		{jwt.ErrTokenInvalidAudience, "the token is for another audience"},
		{jwt.ErrTokenInvalidIssuer, "the token is of another issuer"},
		{jwt.ErrTokenRequiredClaimMissing, "the token lacks a claim: exp, iss and aud are required"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	return "the token is not valid"
}

func (v *Verifier) principal(claims jwt.MapClaims) (*auth.Principal, error) {
	p := &auth.Principal{Issuer: v.cfg.Issuer, Claims: claims}
	name, _ := p.Claim(v.cfg.NameClaim)
	if p.Name, _ = name.(string); p.Name == "" {
		return nil, tandem.Errorf(tandem.Unauthenticated, "the token has no name: the claim %q is not a text", v.cfg.NameClaim)
	}
	if auth.IsSPIFFE(p.Name) {
		domain, err := auth.ParseSPIFFE(p.Name)
		if err != nil || !slices.Contains(v.cfg.TrustDomains, domain) {
			return nil, tandem.Errorf(tandem.Unauthenticated, "the token's name is a SPIFFE id of a trust domain that is not accepted from its issuer")
		}
	}
	if v.cfg.TenantClaim != "" {
		tenant, _ := p.Claim(v.cfg.TenantClaim)
		p.Tenant, _ = tenant.(string)
	}
	return p, nil
}
