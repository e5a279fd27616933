package rpcx

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	rpcxprotocol "github.com/smallnest/rpcx/protocol"
	rpcxserver "github.com/smallnest/rpcx/server"
	"github.com/smallnest/rpcx/share"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
)

// serveRPCX runs a real rpcx server until the test ends.
func serveRPCX(t *testing.T, address string, change func(*rpcxserver.Server)) (*Arith, *rpcxserver.Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	a := &Arith{make(chan int, 1)}
	s := rpcxserver.NewServer()
	if change != nil {
		change(s)
	}
	if err := s.RegisterName("Arith", a, ""); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeListener("tcp", ln) }()
	<-s.Started
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return a, s, ln.Addr().String()
}

func dial(t *testing.T, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(target, append([]client.Option{client.WithProtocols(rpcx.Client()), client.WithTimeout(time.Minute)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Tell returns the metadata it received, and sends some back, in rpcx's way.
func (*Arith) Tell(ctx context.Context, args *Args, reply *Reply) error {
	in := ctx.Value(share.ReqMetaDataKey).(map[string]string)
	ctx.Value(share.ResMetaDataKey).(map[string]string)["seen"] = in["trace"] + in[share.ServerTimeout]
	reply.C = args.A * args.B
	return nil
}

// Our client calls a real server, with every codec.
func TestOutward(t *testing.T) {
	a, _, address := serveRPCX(t, "127.0.0.1:0", nil)
	ctx := t.Context()
	c := dial(t, "rpcx://"+address)
	for _, codec := range []string{"msgpack", "json"} {
		r, err := client.Invoke[Reply](ctx, c, "Arith.Mul", &Args{6, 7}, client.Codec(codec))
		if err != nil || r.C != 42 {
			t.Errorf("%s: %v, %v", codec, r, err)
		}
	}
	n, err := client.Invoke[wrapperspb.Int64Value](ctx, c, "Arith.Length", wrapperspb.String("tandem"), client.Codec("protobuf"))
	if err != nil || n.GetValue() != 6 {
		t.Errorf("protobuf: %v, %v", n, err)
	}
	b, err := client.Invoke[[]byte](ctx, c, "Arith.Echo", []byte("raw"), client.Codec("raw"))
	if err != nil || string(*b) != "raw" {
		t.Errorf("raw: %v, %v", b, err)
	}
	if err := c.Notify(ctx, "Arith.Note", &Args{A: 42}); err != nil {
		t.Error(err)
	}
	if got := <-a.notes; got != 42 {
		t.Errorf("it noted %d", got)
	}
	for method, want := range map[string]string{
		"Arith.Fail":    "bad args",
		"Arith.Unheard": "rpcx: can't find method Unheard",
		"Nobody.Mul":    "rpcx: can't find service Nobody",
	} {
		err := c.Call(ctx, method, &Args{}, &Reply{})
		if e := tandem.AsError(err); e == nil || e.Message != want || !e.Remote {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestOutwardLarge sends large messages, with gzip.
func TestOutwardLarge(t *testing.T) {
	_, _, address := serveRPCX(t, "127.0.0.1:0", nil)
	for name, c := range map[string]*client.Client{
		"plain": dial(t, "rpcx://"+address), "gzip": dial(t, "rpcx://"+address, client.WithCompression(client.Compression{Usual: compress.Gzip()})),
	} {
		for _, n := range []int{0, 1024, 1025, 300_000} {
			text := strings.Repeat("x", n)
			got, err := client.Invoke[string](t.Context(), c, "Arith.Repeat", &text)
			if err != nil || *got != text+text {
				t.Errorf("%s, %d bytes: %v", name, n, err)
			}
		}
	}
}

// A token, metadata both ways, and the deadline reach the server. A refused call ends the
// connection, which rpcx closes; the next call uses another.
func TestOutwardMetadataAndAuth(t *testing.T) {
	_, _, address := serveRPCX(t, "127.0.0.1:0", func(s *rpcxserver.Server) {
		s.AuthFunc = func(_ context.Context, _ *rpcxprotocol.Message, token string) error {
			if token != "bearer right" {
				return errors.New("the token is wrong")
			}
			return nil
		}
	})
	c := dial(t, "rpcx://"+address)
	err := c.Call(t.Context(), "Arith.Mul", &Args{6, 7}, &Reply{}, client.Metadata("authorization", "bearer wrong"))
	if e := tandem.AsError(err); e == nil || e.Message != "the token is wrong" {
		t.Errorf("the wrong token: %v", err)
	}
	var back tandem.Metadata
	r, err := client.Invoke[Reply](t.Context(), c, "Arith.Tell", &Args{6, 7}, client.Metadata("authorization", "bearer right"),
		client.Metadata("trace", "7-"), client.Trailer(&back), client.FailMode(tandem.Failtry), client.Idempotent(), client.Timeout(time.Hour))
	if err != nil || r.C != 42 || !strings.HasPrefix(back.Get("seen"), "7-3") {
		t.Errorf("%v, %v, %v", r, err, back)
	}
}

// The call's deadline ends the handler of a real server.
func TestOutwardDeadline(t *testing.T) {
	_, _, address := serveRPCX(t, "127.0.0.1:0", nil)
	c := dial(t, "rpcx://"+address)
	if err := c.Call(t.Context(), "Arith.Wait", &Args{}, &Reply{}, client.Timeout(300*time.Millisecond)); err == nil {
		t.Error("it did not end")
	}
	if _, err := client.Invoke[Reply](t.Context(), c, "Arith.Mul", &Args{6, 7}); err != nil {
		t.Error(err)
	}
}

// Calls go to two servers in turn; when one stops, Failover answers every call; when it is
// back it gets calls again.
func TestOutwardFailover(t *testing.T) {
	_, _, first := serveRPCX(t, "127.0.0.1:0", nil)
	_, s, second := serveRPCX(t, "127.0.0.1:0", nil)
	c := dial(t, "rpcx://"+first+","+second, client.WithFailMode(tandem.Failover), client.WithConnections(client.Connections{HealthCheck: 100 * time.Millisecond}))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				if i == 0 && j == 50 {
					s.Close()
				}
				r, err := client.Invoke[Reply](t.Context(), c, "Arith.Mul", &Args{i, j}, client.Idempotent())
				if err != nil || r.C != i*j {
					t.Errorf("%d times %d: %v, %v", i, j, r, err)
				}
			}
		})
	}
	wg.Wait()
	serveRPCX(t, second, nil)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until the client has connected again
		_, err := client.Invoke[Reply](t.Context(), c, "Arith.Mul", &Args{}, client.Instance("tcp://"+second))
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
