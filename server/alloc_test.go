package server_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// The server's half of a unary call allocates at most three times, plus the message, which with
// the raw codec is a slice and its bytes. The client is a loop that allocates nothing.
func TestServerAllocations(t *testing.T) {
	const message, budget = 2, 3
	if n := allocations(t); n > message+budget {
		t.Errorf("%v allocations a call, budget %d and the message's %d", n, budget, message)
	} else {
		t.Logf("%v allocations a call", n)
	}
}

// allocations returns how many allocations the server's half of a call makes.
func allocations(t *testing.T, opts ...server.Option) float64 {
	t.Helper()
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("coverage and the race detector allocate; CI runs the tests without them too")
	}
	srv := server.New(opts...)
	err := server.Handle(srv, "Test.Echo", func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil })
	if err != nil {
		t.Fatal(err)
	}
	call := cannedClient(t, serve(t, srv, transport.TCP(), "127.0.0.1:0"))
	for range 2000 {
		call()
	}
	return testing.AllocsPerRun(5000, call)
}

// atHeader is a plugin at the points that do not look at messages; it keeps nothing.
type atHeader struct{}

func (atHeader) KeepsNothing() {}

func (atHeader) BeforeRequestHeader(context.Context, *tandem.Call) error { return nil }

func (atHeader) Intercept(next tandem.Func) tandem.Func { return next }

func (atHeader) AfterRequestHeader(context.Context, *tandem.Call) error { return nil }

func (atHeader) AfterResponse(context.Context, *tandem.Call, tandem.Outcome) {}

// atBody is a plugin at the points that look at messages; it keeps nothing.
type atBody struct{ atHeader }

func (atBody) BeforeRequestBody(context.Context, *tandem.Call) error { return nil }

func (atBody) AfterRequestBody(context.Context, *tandem.Call, any) error { return nil }

func (atBody) BeforeResponse(_ context.Context, _ *tandem.Call, _ any, err error) error { return err }

// The points allocate nothing, or once if a plugin looks at messages.
func TestPointsAllocateAtMostOnce(t *testing.T) {
	without := allocations(t)
	for _, c := range []struct {
		plugin any
		more   float64
	}{{atHeader{}, 0}, {atBody{}, 1}} {
		if n := allocations(t, server.WithPlugins(c.plugin)); n > without+c.more {
			t.Errorf("%T: %v allocations a call, %v without", c.plugin, n, without)
		} else {
			t.Logf("%T: %v allocations a call, %v without", c.plugin, n, without)
		}
	}
}

// cannedClient returns a function that makes one call and waits for its response.
func cannedClient(t *testing.T, addr net.Addr) func() {
	t.Helper()
	v := &victim{t: t, addr: addr.String()}
	conn := v.greeted()
	t.Cleanup(func() { _ = conn.Close() })
	buf := make([]byte, wire.HeaderLen+wire.MaxBlock)
	const raw = 2 // the default server's third codec
	first := request(wire.MakeStream(0, 1), wire.FlagEnd, &wire.Request{Name: wire.Name{Text: []byte("Test.Echo"), Define: true}, Codec: raw}, nil)
	again := request(wire.MakeStream(0, 2), wire.FlagEnd, &wire.Request{Codec: raw}, make([]byte, 600))
	exchange := func(frame []byte) {
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		for h := (wire.Header{}); h.Type != wire.TypeResponse; {
			if _, err := io.ReadFull(conn, buf[:wire.HeaderLen]); err != nil {
				t.Fatal(err)
			}
			h, _ = wire.ParseHeader(buf)
			if _, err := io.ReadFull(conn, buf[:h.Length]); err != nil {
				t.Fatal(err)
			}
			if r := (wire.Response{}); h.Type == wire.TypeResponse {
				if _, err := wire.ParseResponse(buf[:h.Length], &r); err != nil || len(r.Status) > 0 {
					t.Fatalf("%v, status %q", err, r.Status)
				}
			}
		}
	}
	exchange(first)
	return func() { exchange(again) }
}
