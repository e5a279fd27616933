package thrift_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/protocol/thrift"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
)

// gate counts the calls that were executed.
type gate struct {
	office

	opened atomic.Int64
}

func (g *gate) Who(ctx context.Context) (string, error) {
	g.opened.Add(1)
	who, _ := auth.Identity[string](ctx)
	return "opened by " + who, nil
}

// staffOnly is the same plugin as in package all's tests.
func staffOnly() plugin.PerMethod {
	known := func(_ context.Context, name string) (any, error) {
		if name == "staff" || name == "guest" {
			return name, nil
		}
		return nil, errors.New("nobody knows you")
	}
	byName := auth.Certificate(func(ctx context.Context, c *x509.Certificate) (any, error) { return known(ctx, c.Subject.CommonName) })
	return auth.New(auth.Any(auth.Bearer(known), byName), auth.Require("Desk.*", func(identity any) error {
		if identity != "staff" {
			return errors.New("for staff only")
		}
		return nil
	}))
}

// Thrift's clients are refused as those of every other protocol are (see package all's
// tests), and nothing is executed for them: by a token if the dialect has headers, and by
// certificate.
func TestAuthOnEveryDialect(t *testing.T) {
	service := &gate{}
	plain := serve(t, service, server.WithPlugins(staffOnly()))
	secure, configs := serveTLS(t, service, server.WithPlugins(staffOnly()))
	for dialect := range dialects {
		for _, c := range []struct{ name, show, want string }{
			{"none", "", "unauthenticated"},
			{"bad", "mallory", "unauthenticated"},
			{"wrong scope", "guest", "permission denied"},
			{"valid", "staff", "opened by staff"},
		} {
			check := func(by string, ctx context.Context, p apache.TProtocol) {
				t.Run(dialect+" by "+by+"/"+c.name, func(t *testing.T) {
					before := service.opened.Load()
					said, err := desk.NewDeskClient(apache.NewTStandardClient(p, p)).Who(ctx)
					if err != nil {
						said = err.Error()
					}
					valid, n := c.show == "staff", service.opened.Load()-before
					if !strings.Contains(said, c.want) || (err == nil) != valid || (n > 0) != valid {
						t.Errorf("%q, %v, executed %d times; want %q", said, err, n, c.want)
					}
				})
			}
			check("certificate", t.Context(), dialTLS(t, secure, dialect, configs[c.show]))
			if strings.HasPrefix(dialect, "header ") {
				ctx := t.Context()
				if c.show != "" {
					ctx = withHeaders(ctx, map[string]string{"authorization": "Bearer " + c.show})
				}
				check("token", ctx, dial(t, plain, dialect))
			}
		}
	}
}

// ends is a plugin that records how calls ended.
type ends struct{ said chan string }

func (e ends) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	e.said <- call.Method + " " + end.Code().String()
}

// Calls of methods that do not exist pass the plugins, and a caller without permission
// learns nothing about which methods exist.
func TestMissingMethodsPassPlugins(t *testing.T) {
	seen := ends{make(chan string, 1)}
	address := serve(t, &gate{}, server.WithPlugins(seen, staffOnly()))
	for dialect := range dialects {
		for _, c := range []struct {
			show, code, want string
			kind             int32
		}{
			{"", "unauthenticated", "unauthenticated: ", apache.INTERNAL_ERROR},
			{"staff", "unimplemented", `no method "nope" here`, apache.UNKNOWN_METHOD},
		} {
			ctx := t.Context()
			if c.show != "" {
				if !strings.HasPrefix(dialect, "header ") {
					continue // a dialect without headers can't send a token
				}
				ctx = withHeaders(ctx, map[string]string{"authorization": "Bearer " + c.show})
			}
			p := dial(t, address, dialect)
			_, err := apache.NewTStandardClient(p, p).Call(ctx, "nope", &desk.DeskPingArgs{}, &desk.DeskPingResult{})
			e, ok := errors.AsType[apache.TApplicationException](err)
			if !ok || e.TypeId() != c.kind || !strings.Contains(e.Error(), c.want) {
				t.Errorf("%s: %T %v, want %q", dialect, err, err, c.want)
			}
			equal(t, dialect, <-seen.said, "Desk.nope "+c.code)
		}
	}
}

// serveTLS is serve with TLS. It returns the configurations of clients by the names in
// their certificates; "" has no certificate.
func serveTLS(t *testing.T, service any, opts ...server.Option) (address string, clients map[string]*tls.Config) {
	t.Helper()
	own := certificate(t, "desk")
	config := &tls.Config{
		Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: x509.NewCertPool(),
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(own.Leaf)
	clients = map[string]*tls.Config{"": {RootCAs: trusted, MinVersion: tls.VersionTLS13}}
	for _, name := range []string{"staff", "guest", "mallory"} {
		pair := certificate(t, name)
		config.ClientCAs.AddCert(pair.Leaf)
		clients[name] = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, ln, service, opts...)
	return ln.Addr().String(), clients
}

// certificate returns a self-signed certificate.
func certificate(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// dialTLS is dial with TLS.
func dialTLS(t *testing.T, address, dialect string, config *tls.Config) apache.TProtocol {
	t.Helper()
	c := &apache.TConfiguration{ConnectTimeout: time.Minute, SocketTimeout: time.Minute, TLSConfig: config.Clone()}
	socket := apache.NewTSSLSocketConf(address, c)
	p := dialects[dialect](socket, c)
	if err := socket.Open(); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", dialect, err))
	}
	t.Cleanup(func() { socket.Close() })
	return p
}

// A caller without credentials gets the same bytes for every method, whether it exists or
// not (see package all's tests for other protocols).
func TestUniformAnswers(t *testing.T) {
	interceptor := func(tandem.Func) tandem.Func {
		return func(context.Context, *tandem.Call) error { return tandem.Errorf(tandem.Unauthenticated, "who are you") }
	}
	for name, guard := range map[string]server.Option{
		"plugin": server.WithPlugins(staffOnly()), "interceptor": server.WithInterceptors(interceptor),
	} {
		address := serve(t, &gate{}, guard)
		for way, request := range map[string]func(name string) string{
			"framed":   func(name string) string { return "\x00\x00\x00\x15" + binaryCall(name) + "\x00" },
			"buffered": func(name string) string { return binaryCall(name) + "\x00" },
			"compact":  func(name string) string { return "\x82\x21\x07\x08" + name + "\x00" },
			"too large": func(name string) string {
				return "\x00\x80\x00\x00" + binaryCall(name) + strings.Repeat("x", 0x800000-20)
			},
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				want := answerTo(t, address, request("Desk:nop"))
				if !strings.Contains(want, "unauthenticated") {
					t.Errorf("%q", want)
				}
				want = strings.Replace(want, "nop", "who", 1) // the name is part of the response
				if got := answerTo(t, address, request("Desk:who")); got != want {
					t.Errorf("%q\nno such method: %q", got, want)
				}
			})
		}
	}
}

// A method's own message limit does not reveal that the method exists: without a frame the
// connection would end only for methods that exist.
func TestLimitsTellNothing(t *testing.T) {
	srv := server.New(server.WithProtocols(thrift.New()), server.WithPlugins(staffOnly()))
	if err := srv.RegisterFunc("Desk.who", func(s string) string { return s }, server.MethodMaxMessage(16)); err != nil {
		t.Fatal(err)
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
	argument := "\x0b\x00\x01\x00\x00\x00\x64" + strings.Repeat("x", 100) + "\x00"
	twice := func(name string) string { return strings.Repeat(binaryCall(name)+argument, 2) }
	want := answerTo(t, ln.Addr().String(), twice("Desk:nop"))
	if n := strings.Count(want, "unauthenticated"); n != 2 {
		t.Errorf("%d answers: %q", n, want)
	}
	if got := answerTo(t, ln.Addr().String(), twice("Desk:who")); got != strings.ReplaceAll(want, "nop", "who") {
		t.Errorf("%q\nno such method: %q", got, want)
	}
}

// binaryCall returns the head of a call in the binary protocol; the name has 8 bytes.
func binaryCall(name string) string {
	return "\x80\x01\x00\x01\x00\x00\x00\x08" + name + "\x00\x00\x00\x07"
}

// answerTo sends a request, and returns what it reads to the end of the connection.
func answerTo(t *testing.T, address, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, err = io.WriteString(c, request)
	if err == nil {
		err = c.(*net.TCPConn).CloseWrite()
	}
	b, failed := io.ReadAll(c)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return string(b)
}
