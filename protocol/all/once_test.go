package all_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

// countRuns returns a handler whose second run would be seen: it answers with the number of its runs.
func countRuns(runs *atomic.Int32) func(context.Context, *wrapperspb.Int32Value) *wrapperspb.Int32Value {
	return func(context.Context, *wrapperspb.Int32Value) *wrapperspb.Int32Value {
		return wrapperspb.Int32(runs.Add(1))
	}
}

// A key, and the fingerprint of the request, are carried by every protocol that has metadata, and the
// answer is repeated in that protocol. Another protocol's client refuses the call.
func TestKeysCross(t *testing.T) {
	var runs atomic.Int32
	plugin := once.New(once.NewMemory(once.MemoryConfig{}), once.WithCaller(once.Anyone))
	srv := server.New(server.WithProtocols(all.New()...), server.WithPlugins(plugin))
	if err := srv.RegisterFunc("Test.Run", countRuns(&runs)); err != nil {
		t.Fatal(err)
	}
	if err := srv.RegisterFunc("Test.Count", func(int) int32 { return runs.Add(1) }); err != nil {
		t.Fatal(err)
	}
	address := listening(t, srv)
	for _, scheme := range []string{"tcp", "grpc", "connect", "rpcx", "jsonrpc+http", "jsonrpc", "netrpc"} {
		c, err := client.Dial(scheme+"://"+address, client.WithProtocols(all.Clients()...))
		if err != nil {
			t.Fatal(err)
		}
		before := runs.Load()
		run := func(arg int32) (int32, error) {
			if scheme == "netrpc" {
				var n int32
				err := c.Call(t.Context(), "Test.Count", int(arg), &n, client.Key(scheme))
				return n, err
			}
			n, err := client.Invoke[wrapperspb.Int32Value](t.Context(), c, "Test.Run", wrapperspb.Int32(arg), client.Key(scheme))
			return n.GetValue(), err
		}
		if scheme == "jsonrpc" || scheme == "netrpc" {
			if _, err := run(1); tandem.CodeOf(err) != tandem.Unimplemented || tandem.MayHaveExecuted(err) || runs.Load() != before {
				t.Errorf("%s: %v after %d runs", scheme, err, runs.Load()-before)
			}
			_ = c.Close()
			continue
		}
		for range 3 {
			if n, err := run(1); err != nil || n != before+1 {
				t.Errorf("%s: run %d, want %d, %v", scheme, n, before+1, err)
			}
		}
		if _, err := run(2); tandem.CodeOf(err) != tandem.FailedPrecondition || runs.Load() != before+1 {
			t.Errorf("%s: another request: %v", scheme, err)
		}
		_ = c.Close()
	}
}

// A retry over a protocol other than tandem's gets the answer that was lost.
func TestLostAnswersOfKeysAreRepeated(t *testing.T) {
	for _, scheme := range []string{"tcp", "grpc", "connect", "rpcx", "jsonrpc+http"} {
		var runs atomic.Int32
		var first atomic.Pointer[net.Conn]
		plugin := once.New(once.NewMemory(once.MemoryConfig{}), once.WithCaller(once.Anyone))
		srv := server.New(server.WithProtocols(all.New()...), server.WithPlugins(plugin, &firstConn{&first}))
		err := srv.RegisterFunc("Test.Run", func(context.Context, *wrapperspb.Int32Value) *wrapperspb.Int32Value {
			if runs.Add(1) == 1 {
				_ = (*first.Load()).Close()
			}
			return wrapperspb.Int32(runs.Load())
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.Dial(scheme+"://"+listening(t, srv), client.WithProtocols(all.Clients()...), client.WithFailMode(client.Failtry), client.WithTimeout(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		n, err := client.Invoke[wrapperspb.Int32Value](t.Context(), c, "Test.Run", wrapperspb.Int32(1), client.Key("k"))
		if err != nil || n.GetValue() != 1 || runs.Load() != 1 {
			t.Errorf("%s: run %d of %d, %v", scheme, n.GetValue(), runs.Load(), err)
		}
		_ = c.Close()
	}
}

// firstConn keeps the first connection of a server.
type firstConn struct{ first *atomic.Pointer[net.Conn] }

func (f *firstConn) ConnAccepted(c net.Conn) (net.Conn, error) {
	f.first.CompareAndSwap(nil, &c)
	return c, nil
}
