package identity_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/identity"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/plugin/authz"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		os.Exit(code)
	}))
}

const issuer = "https://login.example"

// claims returns those of a valid token, changed by pairs of a name and a value; nil removes one.
func claims(changes ...any) jwt.MapClaims {
	c := jwt.MapClaims{
		"iss": issuer, "aud": "shop", "sub": "ada", "tenant": "blue", "scope": "read write",
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
	}
	for i := 0; i < len(changes); i += 2 {
		if name := changes[i].(string); changes[i+1] == nil {
			delete(c, name)
		} else {
			c[name] = changes[i+1]
		}
	}
	return c
}

// sign returns a token.
func sign(t testing.TB, method jwt.SigningMethod, key any, kid string, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pemOf returns public keys as PEM.
func pemOf(t testing.TB, keys ...crypto.PublicKey) []byte {
	t.Helper()
	var text []byte
	for _, k := range keys {
		der, err := x509.MarshalPKIXPublicKey(k)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return text
}

// replace writes a file as operators should: beside it, then in its place.
func replace(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// verifier returns a Verifier that reads one key from a file.
func verifier(t testing.TB, public crypto.PublicKey, change func(*identity.Config)) *identity.Verifier {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.pem")
	replace(t, path, pemOf(t, public))
	cfg := identity.Config{Issuer: issuer, Audiences: []string{"shop"}, Keys: identity.File(path), TenantClaim: "tenant"}
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

// serve starts a server with those plugins on all protocols and returns its address.
func serve(t testing.TB, opts ...server.Option) string {
	t.Helper()
	srv := server.New(append(opts, server.WithProtocols(all.New()...))...)
	for _, name := range []string{"Orders.Get", "Orders.Drop"} {
		err := server.Handle(srv, name, func(ctx context.Context, _ *int) (*string, error) {
			p, _ := auth.Identity[*auth.Principal](ctx)
			scope, _ := p.Claim("scope")
			said := p.Name + " of " + p.Tenant + " may " + scope.(string)
			return &said, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return ln.Addr().String()
}

const readers = `{
	"version": "1",
	"allow": [{"name": "readers", "callers": ["*"], "methods": ["Orders.*"], "claims": {"scope": {"contains": "read"}}}],
	"deny": [{"name": "no drop", "callers": ["ada"], "methods": ["Orders.Drop"]}]
}`

// A token from an issuer whose key is in a file names its caller to handlers and to the rules, over
// every protocol whose clients have metadata.
func TestTokensAndRulesOnEveryProtocol(t *testing.T) {
	key := newKey(t)
	v := verifier(t, &key.PublicKey, nil)
	rules := filepath.Join(t.TempDir(), "authz.json")
	replace(t, rules, []byte(readers))
	a, err := authz.Follow(policy.File(rules))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	address := serve(t, server.WithPlugins(auth.New(v), a))
	good := sign(t, jwt.SigningMethodES256, key, "", claims())
	late := sign(t, jwt.SigningMethodES256, key, "", claims("exp", time.Now().Add(-time.Hour).Unix()))
	writer := sign(t, jwt.SigningMethodES256, key, "", claims("scope", "write"))
	for _, scheme := range []string{"tcp", "grpc", "connect", "jsonrpc+http", "rpcx"} {
		for _, c := range []struct {
			name, method, token string
			want                tandem.Code
		}{
			{"allowed", "Orders.Get", good, tandem.OK},
			{"denied by a rule", "Orders.Drop", good, tandem.PermissionDenied},
			{"no rule allows it", "Orders.Get", writer, tandem.PermissionDenied},
			{"expired", "Orders.Get", late, tandem.Unauthenticated},
			{"no token", "Orders.Get", "", tandem.Unauthenticated},
		} {
			t.Run(scheme+"/"+c.name, func(t *testing.T) {
				said, err := call(t, scheme, address, c.method, c.token)
				if got := tandem.CodeOf(err); got != c.want {
					t.Fatalf("%v, want %v", err, c.want)
				}
				if err == nil && said != "ada of blue may read write" {
					t.Errorf("the handler saw %q", said)
				}
				if err != nil && strings.Contains(err.Error(), "rule") {
					t.Errorf("the caller hears about rules: %v", err)
				}
			})
		}
	}
	if s := a.Status(); s.Allowed == 0 || s.Denied == 0 || s.Version != "1" {
		t.Errorf("status %+v", s)
	}
}

// call makes a call with a token over a protocol.
func call(t testing.TB, scheme, address, method, token string) (said string, err error) {
	t.Helper()
	opts := []client.Option{client.WithProtocols(all.Clients()...)}
	for _, p := range all.Clients() {
		if p.Name() == scheme && scheme != "grpc" && scheme != "connect" {
			opts = append(opts, client.WithCodec(p.Codecs()[0]))
		} else if p.Name() == scheme {
			opts = append(opts, client.WithCodec(codec.JSON()))
		}
	}
	if token != "" {
		source := func(context.Context) (identity.Token, error) { return identity.Token{Value: token}, nil }
		opts = append(opts, client.WithPlugins(identity.Credentials(source, identity.AllowPlaintext())))
	}
	c, err := client.Dial(scheme+"://"+address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Call(t.Context(), method, 1, &said)
	return said, err
}
