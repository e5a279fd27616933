package auth_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/rpc"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// whoAmI returns the caller's identity.
func whoAmI(ctx context.Context, _ *int) (*string, error) {
	who, _ := auth.Identity[string](ctx)
	return &who, nil
}

// serve starts a server with that plugin and three methods.
func serve(t *testing.T, plugin any, opts ...server.Option) string {
	t.Helper()
	return serveOn(t, transport.TCP(), plugin, opts...)
}

func serveOn(t *testing.T, network tandem.Transport, plugin any, opts ...server.Option) string {
	t.Helper()
	srv := server.New(append(opts, server.WithProtocols(all.New()...), server.WithPlugins(plugin))...)
	for _, name := range []string{"Who.AmI", "Admin.Who", "Health.Check"} {
		if err := server.Handle(srv, name, whoAmI); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := network.Listen(t.Context(), "127.0.0.1:0")
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

// ask makes one call with those options and returns the reply.
func ask(t *testing.T, address, method string, opts ...client.Option) (string, error) {
	t.Helper()
	c, err := client.Dial("tcp://"+address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var who string
	err = c.Call(t.Context(), method, 0, &who)
	return who, err
}

func everyKind() auth.Authenticator {
	return auth.Any(
		auth.Bearer(auth.Known(map[string]string{"sesame": "ali"})),
		auth.Basic(func(_ context.Context, user, password string) (any, error) {
			if password != "rosebud" {
				return nil, errors.New("wrong password")
			}
			return user, nil
		}),
		auth.APIKey("x-api-key", auth.Known(map[string]string{"k1": "robot"})),
		auth.Certificate(nil),
	)
}

func TestKindsOfCredentials(t *testing.T) {
	address := serve(t, auth.New(everyKind()))
	fails := func(context.Context) (string, error) { return "", errors.New("no token today") }
	changes := func(context.Context) (string, error) { return "sesame", nil }
	for name, c := range map[string]struct {
		credentials any
		who         string
		fails       string
	}{
		"none":           {nil, "", "no credentials"},
		"bearer":         {auth.Token("Bearer", "sesame"), "ali", ""},
		"bearer, lower":  {auth.Token("bearer", "sesame"), "ali", ""},
		"wrong bearer":   {auth.Token("Bearer", "simsim"), "", "not known"},
		"unknown tag":    {auth.Token("Digest", "sesame"), "", "no credentials"},
		"no tag":         {auth.Token("", "sesame"), "", "no credentials"},
		"basic":          {auth.Login("kane", "rosebud"), "kane", ""},
		"wrong password": {auth.Login("kane", "sled"), "", "wrong password"},
		"bad base64":     {auth.Token("Basic", "%"), "", "base64"},
		"no colon":       {auth.Token("Basic", "YWJj"), "", "base64"},
		"key":            {auth.Key("x-api-key", "k1"), "robot", ""},
		"wrong key":      {auth.Key("x-api-key", "k2"), "", "not known"},
		"a source":       {auth.TokenFrom("Bearer", changes), "ali", ""},
		"bad source":     {auth.TokenFrom("Bearer", fails), "", "no token today"},
	} {
		t.Run(name, func(t *testing.T) {
			var opts []client.Option
			if c.credentials != nil {
				opts = append(opts, client.WithPlugins(c.credentials))
			}
			who, err := ask(t, address, "Who.AmI", opts...)
			if c.fails == "" {
				if err != nil || who != c.who {
					t.Errorf("got %q, %v", who, err)
				}
				return
			}
			if tandem.CodeOf(err) != tandem.Unauthenticated || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A certificate identifies the caller, also if another plugin has wrapped the connection in a
// type that hides its TLS.
func TestCertificate(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "ali")
	serverTLS.ClientAuth = tls.VerifyClientCertIfGiven
	address := serveOn(t, transport.TLS(transport.TCP(), serverTLS), auth.New(everyKind()), server.WithPlugins(veil{}))
	if who, err := ask(t, address, "Who.AmI", client.WithTLS(clientTLS)); err != nil || who != "ali" {
		t.Errorf("got %q, %v", who, err)
	}
	anonymous := clientTLS.Clone()
	anonymous.Certificates = nil
	if _, err := ask(t, address, "Who.AmI", client.WithTLS(anonymous)); tandem.CodeOf(err) != tandem.Unauthenticated {
		t.Errorf("without a certificate: %v", err)
	}
}

// veil wraps connections in a type that hides their TLS.
type veil struct{}

func (veil) ConnAccepted(c net.Conn) (net.Conn, error) { return struct{ net.Conn }{c}, nil }

func TestRules(t *testing.T) {
	address := serve(t, auth.New(everyKind(), auth.Public("Health.*"),
		auth.Require("Admin.*", func(identity any) error {
			if identity != "kane" {
				return errors.New("for kane only")
			}
			return nil
		})))
	ali, kane := client.WithPlugins(auth.Token("Bearer", "sesame")), client.WithPlugins(auth.Login("kane", "rosebud"))
	for _, c := range []struct {
		method string
		as     client.Option
		want   tandem.Code
	}{
		{"Health.Check", client.WithPlugins(auth.Token("Bearer", "simsim")), tandem.OK},
		{"Who.AmI", ali, tandem.OK},
		{"Admin.Who", ali, tandem.PermissionDenied},
		{"Admin.Who", kane, tandem.OK},
		{"Admin.Who", client.WithPlugins(auth.Key("x", "y")), tandem.Unauthenticated},
	} {
		if _, err := ask(t, address, c.method, c.as); tandem.CodeOf(err) != c.want {
			t.Errorf("%s: got %v, want %v", c.method, err, c.want)
		}
	}
}

// ByFunc passes a token, its tag, and the method.
func TestByFunc(t *testing.T) {
	address := serve(t, auth.New(auth.ByFunc(func(a *auth.Authorization) error {
		if a.Authorization != "0b79" || a.Tag != "Bearer" || a.ServiceMethod != "Who.AmI" {
			return errors.New("Authorization failed ")
		}
		return nil
	})))
	if who, err := ask(t, address, "Who.AmI", client.WithPlugins(auth.Token("Bearer", "0b79"))); err != nil || who != "0b79" {
		t.Errorf("got %q, %v", who, err)
	}
	for _, wrong := range []plugin.BeforeCall{auth.Token("Bearer", "0b79_ABC"), auth.Token("", "0b79")} {
		_, err := ask(t, address, "Who.AmI", client.WithPlugins(wrong))
		if e := tandem.AsError(err); e == nil || e.Code != tandem.Unauthenticated || e.Message != "Authorization failed " {
			t.Errorf("got %v", err)
		}
	}
}

// The arguments of a call that is refused are never decoded, on any protocol.
func TestRefusedBeforeDecoding(t *testing.T) {
	seen := false
	address := serve(t, auth.New(auth.ByFunc(func(*auth.Authorization) error { return errors.New("no") })),
		server.WithPlugins(decoded{&seen}))
	if _, err := ask(t, address, "Who.AmI"); tandem.CodeOf(err) != tandem.Unauthenticated {
		t.Errorf("tandem: %v", err)
	}
	c, err := rpc.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call("Who.AmI", 0, new(string)); err == nil || !strings.Contains(err.Error(), "unauthenticated: no") {
		t.Errorf("net/rpc: %v", err)
	}
	_ = c.Close()
	if seen {
		t.Error("arguments were decoded")
	}
}

type decoded struct{ seen *bool }

func (d decoded) AfterRequestBody(context.Context, *tandem.Call, any) error {
	*d.seen = true
	return nil
}

// An unmodified net/rpc client that connects over HTTP with a token is accepted.
func TestTokenOfCONNECT(t *testing.T) {
	address := serve(t, auth.New(everyKind()))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "CONNECT /_goRPC_ HTTP/1.0\r\nAuthorization: Bearer sesame\r\n\r\n")
	answer := make([]byte, len("HTTP/1.0 200 Connected to Go RPC\n\n"))
	if _, err := io.ReadFull(conn, answer); err != nil || !strings.Contains(string(answer), "200") {
		t.Fatal(string(answer), err)
	}
	c := rpc.NewClient(conn)
	var who string
	if err := c.Call("Who.AmI", 0, &who); err != nil || who != "ali" {
		t.Errorf("got %q, %v", who, err)
	}
	_ = c.Close()
}

// An empty secret, as of a variable that is not set, lets nobody in.
func TestEmptySecretIsNobodys(t *testing.T) {
	verify := auth.Known(map[string]string{"": "anybody", "s3cret": "ann"})
	if who, err := verify(t.Context(), ""); err == nil {
		t.Errorf("an empty secret is that of %v", who)
	}
	if who, err := verify(t.Context(), "s3cret"); err != nil || who != "ann" {
		t.Errorf("%v, %v", who, err)
	}
}
