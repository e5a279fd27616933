package auth_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/server"
)

// Only ids with one spelling are SPIFFE ids.
func TestParseSPIFFE(t *testing.T) {
	for id, want := range map[string]string{
		"spiffe://shop/cart":                         "shop",
		"spiffe://shop.example/ns/prod/sa/cart":      "shop.example",
		"spiffe://10.0.0.1/a":                        "10.0.0.1",
		"spiffe://shop/Cart_1.2-3":                   "shop",
		"spiffe://shop":                              "",
		"spiffe://shop/":                             "",
		"spiffe:///cart":                             "",
		"spiffe://Shop/cart":                         "",
		"SPIFFE://shop/cart":                         "",
		"spiffe:/shop/cart":                          "",
		"https://shop/cart":                          "",
		"spiffe://shop/cart/":                        "",
		"spiffe://shop//cart":                        "",
		"spiffe://shop/./cart":                       "",
		"spiffe://shop/a/../cart":                    "",
		"spiffe://shop/c%61rt":                       "",
		"spiffe://shop/cart?x":                       "",
		"spiffe://shop/cart#x":                       "",
		"spiffe://shop:443/cart":                     "",
		"spiffe://user@shop/cart":                    "",
		"spiffe://shop/cärt":                         "",
		"spiffe://shop/cart\x00":                     "",
		"spiffe://shop/ cart":                        "",
		"spiffe://shop/" + strings.Repeat("a", 2048): "",
	} {
		domain, err := auth.ParseSPIFFE(id)
		if domain != want && want != "" || (err == nil) != (want != "") {
			t.Errorf("%.100q: %q, %v; want %q", id, domain, err, want)
		}
	}
}

// A certificate's SPIFFE id is the caller's name, if it is its only URI and of a trust domain that is listed.
func TestSPIFFENamesTheCaller(t *testing.T) {
	authority := testcert.NewAuthority(t, "authority")
	config := &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, nil).Certificate}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: authority.Pool(), MinVersion: tls.VersionTLS13,
	}
	srv := server.New(server.WithTLS(config), server.WithPlugins(auth.New(auth.SPIFFE("shop", "web"))))
	if err := server.Handle(srv, "Who.AmI", principalName); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	address := ln.Addr().String()
	for name, c := range map[string]struct {
		uris  []string
		who   string
		fails string
	}{
		"one id":              {[]string{"spiffe://shop/cart"}, "spiffe://shop/cart", ""},
		"another domain":      {[]string{"spiffe://bank/cart"}, "", "trust domain"},
		"a longer domain":     {[]string{"spiffe://shop.evil/cart"}, "", "trust domain"},
		"two ids":             {[]string{"spiffe://shop/cart", "spiffe://shop/admin"}, "", "2 URIs"},
		"an id and a URL":     {[]string{"https://shop/", "spiffe://shop/cart"}, "", "2 URIs"},
		"another scheme":      {[]string{"https://shop/cart"}, "", "no SPIFFE id"},
		"an encoded id":       {[]string{"spiffe://shop/c%61rt"}, "", "segment"},
		"the domain's own id": {[]string{"spiffe://shop"}, "", "no SPIFFE id"},
		"no URI":              {nil, "", "no credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, nil, c.uris...).Certificate}, RootCAs: authority.Pool(), MinVersion: tls.VersionTLS13}
			who, err := ask(t, address, "Who.AmI", client.WithTLS(config))
			if who != c.who || (err == nil) != (c.fails == "") || err != nil && (tandem.CodeOf(err) != tandem.Unauthenticated || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%q, %v; want %q, %q", who, err, c.who, c.fails)
			}
		})
	}
	stranger := testcert.NewAuthority(t, "stranger").Issue(t, nil, "spiffe://shop/cart")
	config = &tls.Config{Certificates: []tls.Certificate{stranger.Certificate}, RootCAs: authority.Pool(), MinVersion: tls.VersionTLS13}
	if who, err := ask(t, address, "Who.AmI", client.WithTLS(config)); err == nil {
		t.Errorf("a stranger's id was believed: %q", who)
	}
}

// principalName answers with the name of the caller.
func principalName(ctx context.Context, _ *int) (*string, error) {
	p, _ := auth.Identity[*auth.Principal](ctx)
	return &p.Name, nil
}

// An id without a certificate of the server's authorities counts for nothing, also if the server only asks for one.
func TestUnverifiedSPIFFE(t *testing.T) {
	leaf := testcert.NewAuthority(t, "stranger").Issue(t, nil, "spiffe://shop/cart")
	call := &tandem.Call{Peer: &tandem.Peer{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.Leaf}}}}
	if who, err := auth.SPIFFE("shop").Authenticate(t.Context(), call); !errors.Is(err, auth.ErrNoCredentials) {
		t.Errorf("%v, %v", who, err)
	}
}

// Claims are found by name, inside others, and by names that have slashes.
func TestPrincipalClaim(t *testing.T) {
	p := &auth.Principal{Claims: map[string]any{
		"a": map[string]any{"b": map[string]any{"c": 1}, "b/d": 2}, "https://x/y": 3, "https://x": map[string]any{"z": 4},
	}}
	for path, want := range map[string]any{"a/b/c": 1, "a/b/d": 2, "https://x/y": 3, "https://x/z": 4, "a/x": nil, "": nil, "a/b/c/d": nil, "/": nil} {
		if got, ok := p.Claim(path); got != want || ok != (want != nil) {
			t.Errorf("%q: %v, %v; want %v", path, got, ok, want)
		}
	}
	if _, ok := (*auth.Principal)(nil).Claim("a"); ok {
		t.Error("nobody has a claim")
	}
}
