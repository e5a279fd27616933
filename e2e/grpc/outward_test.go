// Package grpc tests our client with a real grpc-go server, and grpc-go's client with ours.
package grpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// texts are the methods of the server.
var texts = map[string]func(ctx context.Context, in string) (string, error){
	"Twice": func(_ context.Context, in string) (string, error) { return in + in, nil },
	"Wait":  func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() },
	"Tell": func(ctx context.Context, _ string) (string, error) {
		in, _ := metadata.FromIncomingContext(ctx)
		grpc.SetHeader(ctx, metadata.Pairs("first", "header"))
		grpc.SetTrailer(ctx, metadata.Pairs("last", "trailer", "bytes-bin", "\x00\x01"))
		return strings.Join(append(in["authorization"], in["bytes-bin"]...), "+"), nil
	},
	"Fail": func(context.Context, string) (string, error) {
		s, err := status.New(codes.FailedPrecondition, "not now").WithDetails(wrapperspb.Int64(7))
		if err != nil {
			return "", err
		}
		return "", s.Err()
	},
}

// serve runs a grpc-go server until the test ends.
func serve(t *testing.T, address string, opts ...grpc.ServerOption) (*grpc.Server, string) {
	t.Helper()
	desc := grpc.ServiceDesc{ServiceName: "test.v1.Texts", HandlerType: (*any)(nil)}
	for name, f := range texts {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			out, err := f(ctx, in.GetValue())
			if err != nil {
				return nil, err
			}
			return wrapperspb.String(out), nil
		}})
	}
	srv := grpc.NewServer(opts...)
	srv.RegisterService(&desc, struct{}{})
	healthpb.RegisterHealthServer(srv, health.NewServer())
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Stop()
		<-ended
	})
	return srv, ln.Addr().String()
}

func dial(t *testing.T, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(target, append([]client.Option{client.WithProtocols(web.GRPC()), client.WithTimeout(time.Minute)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func twice(t *testing.T, c *client.Client, text string) {
	t.Helper()
	out, err := client.Invoke[wrapperspb.StringValue](t.Context(), c, "test.v1.Texts.Twice", wrapperspb.String(text), client.Idempotent())
	if err != nil || out.GetValue() != text+text {
		t.Errorf("%d bytes: %v", len(text), err)
	}
}

// TestOutward covers concurrent calls, large messages, metadata both ways, errors with
// details, deadlines and generated types.
func TestOutward(t *testing.T) {
	_, address := serve(t, "127.0.0.1:0")
	c := dial(t, "grpc://"+address)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				twice(t, c, "ab")
			}
		})
	}
	wg.Wait()
	twice(t, c, "")
	twice(t, c, strings.Repeat("x", 1<<20))
	var back tandem.Metadata
	out, err := client.Invoke[wrapperspb.StringValue](t.Context(), c, "test.v1.Texts.Tell", wrapperspb.String(""),
		client.Metadata("authorization", "bearer x"), client.Metadata("bytes-bin", "\x02\x03"), client.Trailer(&back))
	if err != nil || out.GetValue() != "bearer x+\x02\x03" || back.Get("first") != "header" || back.Get("last") != "trailer" || back.Get("bytes-bin") != "\x00\x01" {
		t.Errorf("%v, %v, %v", out, back, err)
	}
	e := tandem.AsError(c.Call(t.Context(), "test.v1.Texts.Fail", wrapperspb.String(""), nil))
	if e == nil || e.Code != tandem.FailedPrecondition || e.Message != "not now" || !e.Remote || len(e.Details) != 1 || e.Details[0].Type != "google.protobuf.Int64Value" {
		t.Errorf("%+v", e)
	}
	for method, want := range map[string]tandem.Code{"test.v1.Texts.Unheard": tandem.Unimplemented, "test.v1.Nobody.Twice": tandem.Unimplemented} {
		if err := c.Call(t.Context(), method, wrapperspb.String(""), nil); tandem.CodeOf(err) != want {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := c.Call(t.Context(), "test.v1.Texts.Wait", wrapperspb.String(""), nil, client.Timeout(200*time.Millisecond)); tandem.CodeOf(err) != tandem.DeadlineExceeded {
		t.Error(err)
	}
	h, err := client.Invoke[healthpb.HealthCheckResponse](t.Context(), c, "grpc.health.v1.Health.Check", &healthpb.HealthCheckRequest{})
	if err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", h, err)
	}
}

// Calls to a server that stops gracefully go to the other; when it is back it gets calls
// again. Health checks of both succeed.
func TestOutwardFailover(t *testing.T) {
	_, first := serve(t, "127.0.0.1:0")
	s, second := serve(t, "127.0.0.1:0")
	c := dial(t, "grpc://"+first+","+second, client.WithFailMode(tandem.Failover), client.WithConnections(client.Connections{HealthCheck: 100 * time.Millisecond}),
		client.WithAttempts(client.Attempts{Budget: &policy.Budget{Share: 1, PerSecond: 1000}}))
	stopped := make(chan struct{})
	for i := range 200 {
		if i == 50 {
			go func() {
				s.GracefulStop()
				close(stopped)
			}()
		}
		twice(t, c, "ab")
	}
	<-stopped
	twice(t, c, "ab")
	serve(t, second)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until the client has connected again
		_, err := client.Invoke[wrapperspb.StringValue](t.Context(), c, "test.v1.Texts.Twice", wrapperspb.String("x"), client.Instance("tcp://"+second))
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// The client works with TLS, for which grpc-go requires "h2".
func TestOutwardTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	_, address := serve(t, "127.0.0.1:0", grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
	c := dial(t, "grpc://"+address, client.WithTLS(&tls.Config{RootCAs: roots, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}))
	twice(t, c, "ab")
}
