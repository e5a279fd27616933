package identity_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/identity"
)

// withHeader returns a token that has another header and is signed as it is.
func withHeader(t *testing.T, key *ecdsa.PrivateKey, name string, value any) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims())
	token.Header[name] = value
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Tokens that anything is wrong with are refused, by name, and nothing of them is in the error.
func TestBadTokensAreRefused(t *testing.T) {
	key, other := newKey(t), newKey(t)
	v := verifier(t, &key.PublicKey, nil)
	strangers, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	es := func(changes ...any) string { return sign(t, jwt.SigningMethodES256, key, "", claims(changes...)) }
	good := es()
	body := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + body[1] + "."
	now := time.Now()
	for name, c := range map[string]struct{ token, want string }{
		"none":                    {none, "algorithm"},
		"none, with a signature":  {none + body[2], "algorithm"},
		"None":                    {base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"None"}`)) + "." + body[1] + ".", "malformed"},
		"public key as secret":    {sign(t, jwt.SigningMethodHS256, pemOf(t, &key.PublicKey), "", claims()), "algorithm"},
		"another key":             {sign(t, jwt.SigningMethodES256, other, "", claims()), "signature"},
		"another curve":           {sign(t, jwt.SigningMethodES384, strangers, "", claims()), "algorithm"},
		"signature left out":      {body[0] + "." + body[1] + ".", "signature"},
		"other claims":            {body[0] + "." + strings.Split(es("sub", "eve"), ".")[1] + "." + body[2], "signature"},
		"expired":                 {es("exp", now.Add(-31*time.Second).Unix()), "expired"},
		"without expiry":          {es("exp", nil), "lacks a claim"},
		"expiry is no number":     {es("exp", "never"), "not valid"},
		"not valid yet":           {es("nbf", now.Add(time.Minute).Unix()), "not valid yet"},
		"issued in the future":    {es("iat", now.Add(time.Minute).Unix()), "future"},
		"another audience":        {es("aud", "bank"), "audience"},
		"no audience":             {es("aud", nil), "lacks a claim"},
		"another issuer":          {es("iss", issuer+"/"), "issuer"},
		"no issuer":               {es("iss", nil), "issuer"},
		"no name":                 {es("sub", nil), "no name"},
		"empty name":              {es("sub", ""), "no name"},
		"name is a number":        {es("sub", 7), "no name"},
		"the name of a workload":  {es("sub", "spiffe://shop/admin"), "SPIFFE"},
		"the same in capitals":    {es("sub", "SPIFFE://shop/admin"), "SPIFFE"},
		"critical extensions":     {withHeader(t, key, "crit", []string{"b64"}), "critical"},
		"a key of its own":        {withHeader(t, other, "jwk", map[string]string{"kty": "EC"}), "signature"},
		"the address of a key":    {withHeader(t, other, "jku", "https://evil.example/keys"), "signature"},
		"too long":                {es("x", strings.Repeat("x", 20_000)), "more than"},
		"two parts":               {body[0] + "." + body[1], "malformed"},
		"four parts":              {good + ".x", "malformed"},
		"not base64":              {"%." + body[1] + "." + body[2], "malformed"},
		"white space inside":      {body[0] + ". " + body[1] + "." + body[2], "malformed"},
		"a bit beyond the base64": {lastBitChanged(good), "malformed"},
		"empty":                   {"", "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time no cache must know it
				p, err := v.Verify(t.Context(), c.token)
				if tandem.CodeOf(err) != tandem.Unauthenticated || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, %v; want %q", p, err, c.want)
				}
				if err != nil && len(c.token) > 8 && strings.Contains(err.Error(), c.token[:8]) {
					t.Errorf("the error has a part of the token: %v", err)
				}
			}
		})
	}
	for range 2 {
		if p, err := v.Verify(t.Context(), good); err != nil || p.Name != "ada" || p.Tenant != "blue" || p.Issuer != issuer {
			t.Errorf("the good one: %+v, %v", p, err)
		}
	}
}

// lastBitChanged changes the bits of the last letter that carry nothing.
func lastBitChanged(token string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(letters, token[len(token)-1])
	return token[:len(token)-1] + string(letters[last^1])
}

// Leeway and the other settings have their effect.
func TestSettingsOfTokens(t *testing.T) {
	key := newKey(t)
	late := claims("exp", time.Now().Add(-time.Minute).Unix())
	for name, c := range map[string]struct {
		change func(*identity.Config)
		claims jwt.MapClaims
		name   string // "" if the token is refused
	}{
		"leeway":            {func(c *identity.Config) { c.Leeway = 2 * time.Minute }, late, "ada"},
		"less leeway":       {func(c *identity.Config) { c.Leeway = time.Second }, late, ""},
		"another name":      {func(c *identity.Config) { c.NameClaim = "client/id" }, claims("client", map[string]any{"id": "till"}), "till"},
		"several audiences": {func(c *identity.Config) { c.Audiences = []string{"bank", "shop"} }, claims("aud", []string{"x", "shop"}), "ada"},
		"algorithms":        {func(c *identity.Config) { c.Algorithms = []string{"RS256"} }, claims(), ""},
		"trust domain":      {func(c *identity.Config) { c.TrustDomains = []string{"shop"} }, claims("sub", "spiffe://shop/cart"), "spiffe://shop/cart"},
		"other domain":      {func(c *identity.Config) { c.TrustDomains = []string{"shop"} }, claims("sub", "spiffe://bank/cart"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := verifier(t, &key.PublicKey, c.change)
			p, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodES256, key, "", c.claims))
			if (err == nil) != (c.name != "") || err == nil && p.Name != c.name {
				t.Errorf("%+v, %v; want %q", p, err, c.name)
			}
		})
	}
}

// A config that would accept too much, or nothing, is an error.
func TestConfigsThatCantBeRight(t *testing.T) {
	key := newKey(t)
	path := filepath.Join(t.TempDir(), "keys.pem")
	replace(t, path, pemOf(t, &key.PublicKey))
	for want, change := range map[string]func(*identity.Config){
		"Issuer":         func(c *identity.Config) { c.Issuer = "" },
		"Audiences":      func(c *identity.Config) { c.Audiences = nil },
		`"none"`:         func(c *identity.Config) { c.Algorithms = []string{"none"} },
		`"HS256"`:        func(c *identity.Config) { c.Algorithms = []string{"ES256", "HS256"} },
		"Leeway":         func(c *identity.Config) { c.Leeway = time.Hour },
		"negative":       func(c *identity.Config) { c.Refresh = -1 },
		"Config.Keys":    func(c *identity.Config) { c.Keys = identity.Keys{} },
		"no such file":   func(c *identity.Config) { c.Keys = identity.File(path + ".nope") },
		"want an https":  func(c *identity.Config) { c.Keys = identity.URL("http://login.example/keys") },
		`"nowhere"`:      func(c *identity.Config) { c.Issuer, c.Keys = "nowhere", identity.Discovery() },
		"Insecure":       func(c *identity.Config) { c.Issuer, c.Keys = "http://login.example", identity.Discovery() },
		"want an https ": func(c *identity.Config) { c.Keys, c.Insecure = identity.URL("ftp://login.example/keys"), true },
	} {
		cfg := identity.Config{Issuer: issuer, Audiences: []string{"shop"}, Keys: identity.File(path)}
		change(&cfg)
		if v, err := identity.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				v.Close()
			}
		}
	}
}

// Files with keys that verify nothing, or are no public keys, are refused with the reason.
func TestKeyFilesThatAreRefused(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"1024 bits":    string(pemOf(t, &weak.PublicKey)),
		"neither PEM":  "hello",
		"private key":  "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"secret key":   `{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}`,
		"secret key: ": `{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0", "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}`,
		"there is no":  `{"keys": []}`,
		"there is no ": `{"keys": [{"kty": "EC", "use": "enc", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`,
		"the JWK set":  `{"keys": 7}`,
		"more than":    strings.Repeat(" ", 1<<20) + "x",
		"101 keys":     `{"keys": [` + strings.Repeat(`{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},`, 100) + `{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`,
	} {
		path := filepath.Join(t.TempDir(), "keys")
		replace(t, path, []byte(text))
		v, err := identity.New(identity.Config{Issuer: issuer, Audiences: []string{"shop"}, Keys: identity.File(path)})
		if err == nil || !strings.Contains(err.Error(), strings.TrimRight(want, ": ")) {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				v.Close()
			}
		}
	}
}

// Every algorithm verifies its own signatures, and no key those of another type.
func TestEveryAlgorithm(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]any{"RS": small, "PS": small, "Ed": private}
	set := pemOf(t, &small.PublicKey, public)
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys[name], set = k, append(set, pemOf(t, &k.PublicKey)...)
	}
	path := filepath.Join(t.TempDir(), "keys.pem")
	replace(t, path, set)
	names := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
	v, err := identity.New(identity.Config{Issuer: issuer, Audiences: []string{"shop"}, Keys: identity.File(path), Algorithms: names})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, name := range names {
		key := keys[name]
		if key == nil {
			key = keys[name[:2]]
		}
		if p, err := v.Verify(t.Context(), sign(t, jwt.GetSigningMethod(name), key, "", claims())); err != nil || p.Name != "ada" {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

// A key file is read again: a new key counts, an old one no longer, also for tokens that were seen; a file that is
// broken or gone leaves the keys as they are, and the status says so.
func TestKeyFilesAreReloaded(t *testing.T) {
	first, second := newKey(t), newKey(t)
	path := filepath.Join(t.TempDir(), "keys.pem")
	replace(t, path, pemOf(t, &first.PublicKey))
	v, err := identity.New(identity.Config{Issuer: issuer, Audiences: []string{"shop"}, Keys: identity.File(path)})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	one, two := sign(t, jwt.SigningMethodES256, first, "", claims()), sign(t, jwt.SigningMethodES256, second, "", claims())
	valid := func(token string) bool { _, err := v.Verify(t.Context(), token); return err == nil }
	if !valid(one) || valid(two) {
		t.Fatal("the first key does not count, or the second does")
	}
	replace(t, path, pemOf(t, &second.PublicKey))
	eventually(t, "the second key counts alone", func() bool { return valid(two) && !valid(one) })
	replace(t, path, []byte("oops"))
	eventually(t, "the status has an error", func() bool { return v.Status().Error != "" })
	if s := v.Status(); !valid(two) || s.Keys != 1 || s.Failures == 0 || !strings.Contains(s.Error, "neither PEM") {
		t.Errorf("with a broken file: %+v", s)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status says that the file is gone", func() bool { return strings.Contains(v.Status().Error, "no such file") })
	replace(t, path, pemOf(t, &first.PublicKey))
	eventually(t, "the first key counts again", func() bool { return valid(one) && v.Status().Error == "" })
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("it was not so in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // files and servers have no other clock
	}
}

// FuzzKeys: no text of keys panics, and no secret is taken.
func FuzzKeys(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "keys")
		replace(t, path, text)
		v, err := identity.New(identity.Config{Issuer: issuer, Audiences: []string{"shop"}, Keys: identity.File(path)})
		if err != nil {
			return
		}
		defer v.Close()
		var one struct {
			Kty string `json:"kty"`
			D   string `json:"d"`
		}
		if json.Unmarshal(text, &one) == nil && (one.Kty == "oct" || one.D != "") {
			t.Errorf("%q was taken", text)
		}
	})
}
