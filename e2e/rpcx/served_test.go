// Package rpcx tests our server with real rpcx clients, and our client with a real rpcx
// server. rpcx requires some seventy modules, and has data races of its own.
package rpcx

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/log"
	"github.com/smallnest/rpcx/protocol"
	"github.com/smallnest/rpcx/share"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/server"
)

func TestMain(m *testing.M) {
	log.SetDummyLogger()
	m.Run()
}

type Args struct{ A, B int }

type Reply struct{ C int }

// Arith is a service in rpcx's shape, as in its documentation.
type Arith struct{ notes chan int }

func (*Arith) Mul(_ context.Context, args *Args, reply *Reply) error {
	reply.C = args.A * args.B
	return nil
}

func (*Arith) Fail(context.Context, *Args, *Reply) error { return errors.New("bad args") }

func (a *Arith) Note(_ context.Context, args *Args, _ *Reply) error {
	a.notes <- args.A
	return nil
}

func (*Arith) Wait(ctx context.Context, _ *Args, reply *Reply) error {
	<-ctx.Done()
	return ctx.Err()
}

func (*Arith) Length(_ context.Context, text *wrapperspb.StringValue, n *wrapperspb.Int64Value) error {
	n.Value = int64(len(text.GetValue()))
	return nil
}

func (*Arith) Echo(_ context.Context, in []byte, out *[]byte) error {
	*out = in
	return nil
}

func (*Arith) Repeat(_ context.Context, text *string, out *string) error {
	*out = *text + *text
	return nil
}

// serve runs our server with rpcx's protocol until the test ends.
func serve(t *testing.T, opts ...server.Option) (a *Arith, address string) {
	t.Helper()
	a = &Arith{make(chan int, 1)}
	srv := server.New(append([]server.Option{server.WithProtocols(rpcx.New())}, opts...)...)
	if err := srv.Register(a); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-ended
	})
	return a, ln.Addr().String()
}

// xclient returns an rpcx client for the service Arith.
func xclient(t *testing.T, address string, change func(*client.Option)) client.XClient {
	t.Helper()
	d, err := client.NewPeer2PeerDiscovery("tcp@"+address, "")
	if err != nil {
		t.Fatal(err)
	}
	option := client.DefaultOption
	option.ConnectTimeout = 30 * time.Second
	if change != nil {
		change(&option)
	}
	x := client.NewXClient("Arith", client.Failfast, client.RandomSelect, d, option)
	t.Cleanup(func() { x.Close() })
	return x
}

func with(format protocol.SerializeType) func(*client.Option) {
	return func(o *client.Option) { o.SerializeType = format }
}

func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestCodecs calls with every codec that is served, and with one that is not.
func TestCodecs(t *testing.T) {
	_, address := serve(t)
	ctx := patience(t)
	for _, format := range []protocol.SerializeType{protocol.MsgPack, protocol.JSON} {
		x := xclient(t, address, with(format))
		var r Reply
		if err := x.Call(ctx, "Mul", &Args{6, 7}, &r); err != nil || r.C != 42 {
			t.Errorf("%v: %v, %v", format, r, err)
		}
	}
	n := new(wrapperspb.Int64Value)
	if err := xclient(t, address, with(protocol.ProtoBuffer)).Call(ctx, "Length", wrapperspb.String("tandem"), n); err != nil || n.Value != 6 {
		t.Errorf("protobuf: %v, %v", n, err)
	}
	var out []byte
	if err := xclient(t, address, with(protocol.SerializeNone)).Call(ctx, "Echo", []byte("as it is"), &out); err != nil || string(out) != "as it is" {
		t.Errorf("raw bytes: %q, %v", out, err)
	}
	// rpcx's client would refuse to encode a type that is not a Thrift struct.
	c := client.NewClient(client.DefaultOption)
	if err := c.Connect("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := protocol.NewMessage()
	req.SetSerializeType(protocol.Thrift)
	req.ServicePath, req.ServiceMethod, req.Payload = "Arith", "Mul", []byte{0}
	if _, _, err := c.SendRaw(ctx, req); err == nil || !strings.Contains(err.Error(), "Thrift, are not served") {
		t.Errorf("thrift: %v", err)
	}
}

// TestCompression sends large payloads, with gzip and without.
func TestCompression(t *testing.T) {
	_, address := serve(t)
	ctx := patience(t)
	for _, by := range []protocol.CompressType{protocol.None, protocol.Gzip} {
		x := xclient(t, address, func(o *client.Option) { o.CompressType = by })
		for _, n := range []int{0, 1, 1024, 1025, 300_000} {
			text, twice := strings.Repeat("x", n), ""
			if err := x.Call(ctx, "Repeat", &text, &twice); err != nil || twice != text+text {
				t.Errorf("compression %v, %d bytes: %d came back, %v", by, n, len(twice), err)
			}
		}
	}
}

// Errors have rpcx's form and texts.
func TestErrors(t *testing.T) {
	_, address := serve(t)
	ctx := patience(t)
	x := xclient(t, address, nil)
	for method, want := range map[string]string{
		"Fail":    "bad args",
		"Unheard": "rpcx: can't find method Unheard",
	} {
		err := x.Call(ctx, method, &Args{}, &Reply{})
		if _, ok := err.(client.ServiceError); !ok || err.Error() != want { //nolint:errorlint // users compare it so
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := x.Call(ctx, "Mul", "no struct", &Reply{}); err == nil || !strings.Contains(err.Error(), "invalid argument: ") {
		t.Errorf("an argument of another type: %v", err)
	}
	var r Reply
	if err := x.Call(ctx, "Mul", &Args{6, 7}, &r); err != nil || r.C != 42 {
		t.Errorf("after the errors: %v, %v", r, err)
	}
}

// Metadata is sent both ways, and a token is in the metadata where interceptors find it on
// every protocol. A refused caller keeps the connection.
func TestMetadataAndAuth(t *testing.T) {
	_, address := serve(t, server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if token := call.Metadata.Get("authorization"); token != "bearer right" {
				return tandem.Errorf(tandem.Unauthenticated, "token %q", token)
			}
			call.Trailer = tandem.Metadata{"seen": {call.Metadata.Get("trace")}}
			return next(ctx, call)
		}
	}))
	x := xclient(t, address, nil)
	x.Auth("bearer wrong")
	md := map[string]string{"Trace": "7"}
	back := map[string]string{}
	ctx := context.WithValue(patience(t), share.ReqMetaDataKey, md)
	ctx = context.WithValue(ctx, share.ResMetaDataKey, back)
	if err := x.Call(ctx, "Mul", &Args{6, 7}, &Reply{}); err == nil || err.Error() != `unauthenticated: token "bearer wrong"` {
		t.Errorf("the wrong token: %v", err)
	}
	x.Auth("bearer right")
	var r Reply
	if err := x.Call(ctx, "Mul", &Args{6, 7}, &r); err != nil || r.C != 42 || back["seen"] != "7" {
		t.Errorf("%v, %v, metadata back %v", r, err, back)
	}
}

// The client's deadline ends the handler at the server.
func TestDeadline(t *testing.T) {
	ended := make(chan error, 1)
	_, address := serve(t, server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			err := next(ctx, call)
			ended <- err
			return err
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := xclient(t, address, nil).Call(ctx, "Wait", &Args{}, &Reply{}); err == nil {
		t.Error("the call did not end")
	}
	if err := <-ended; tandem.CodeOf(err) != tandem.DeadlineExceeded {
		t.Errorf("the handler ended with %v", err)
	}
}

// A one-way call arrives; a client with heartbeats stays connected.
func TestOneWayAndHeartbeats(t *testing.T) {
	a, address := serve(t)
	ctx := patience(t)
	x := xclient(t, address, func(o *client.Option) {
		o.Heartbeat, o.HeartbeatInterval, o.MaxWaitForHeartbeat = true, 20*time.Millisecond, 30*time.Second
	})
	if err := x.Oneshot(ctx, "Note", &Args{A: 42}); err != nil {
		t.Fatal(err)
	}
	if got := <-a.notes; got != 42 {
		t.Errorf("it noted %d", got)
	}
	time.Sleep(200 * time.Millisecond) // enough for some heartbeats, which rpcx does not report
	var r Reply
	if err := x.Call(ctx, "Mul", &Args{6, 7}, &r); err != nil || r.C != 42 {
		t.Errorf("after heartbeats: %v, %v", r, err)
	}
}

// Many calls run concurrently on one connection.
func TestManyAtATime(t *testing.T) {
	_, address := serve(t)
	ctx := patience(t)
	x := xclient(t, address, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := range 100 {
				var r Reply
				if err := x.Call(ctx, "Mul", &Args{i, j}, &r); err != nil || r.C != i*j {
					t.Errorf("%d times %d: %v, %v", i, j, r, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
