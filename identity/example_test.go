package identity_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/identity"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/plugin/authz"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A server that knows its callers by tokens, and lets them do what a file of rules allows.
func Example() {
	folder, err := os.MkdirTemp("", "identity")
	check(err)
	defer func() { check(os.RemoveAll(folder)) }()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // the issuer's, whose public part is in a file
	check(err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	check(err)
	keys, rules := filepath.Join(folder, "issuer.pem"), filepath.Join(folder, "authz.json")
	check(os.WriteFile(keys, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	check(os.WriteFile(rules, []byte(`{"allow": [
		{"name": "readers", "callers": ["*"], "methods": ["Orders.Get"], "claims": {"scope": {"contains": "orders.read"}}}
	]}`), 0o600))

	tokens, err := identity.New(identity.Config{Issuer: "https://login.example", Audiences: []string{"orders"}, Keys: identity.File(keys)})
	check(err)
	defer tokens.Close()
	authorizer, err := authz.Follow(policy.File(rules))
	check(err)
	defer authorizer.Close()
	srv := server.New(server.WithPlugins(auth.New(tokens), authorizer))
	greet := func(ctx context.Context) string {
		caller, _ := auth.Identity[*auth.Principal](ctx)
		return "hello " + caller.Name
	}
	check(srv.RegisterFunc("Orders.Get", greet))
	check(srv.RegisterFunc("Orders.Delete", greet))
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), "orders")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	source := func(context.Context) (identity.Token, error) {
		expires := time.Now().Add(time.Hour)
		token, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
			"iss": "https://login.example", "aud": "orders", "sub": "ada", "scope": "orders.read", "exp": expires.Unix(),
		}).SignedString(key)
		return identity.Token{Value: token, Expires: expires}, err
	}
	credentials := identity.Credentials(source, identity.AllowPlaintext()) // the connection is in memory
	c, err := client.Dial("mem://orders", client.WithTransport("mem", network), client.WithPlugins(credentials))
	check(err)
	for _, method := range []string{"Orders.Get", "Orders.Delete"} {
		var answer string
		err := c.Call(context.Background(), method, nil, &answer)
		fmt.Printf("%q %v\n", answer, err)
	}
	check(c.Close())
	check(srv.Close())
	<-served
	// Output:
	// "hello ada" <nil>
	// "" permission denied: the caller may not call this method
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
