package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// witness implements every point of a client, records it, and refuses, or panics without an
// error, at the chosen one.
type witness struct {
	*sightings

	name   string
	refuse string
	err    error
}

type sightings struct {
	mu    sync.Mutex
	lines []string
}

func (n *sightings) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

func (w *witness) at(point, detail string) error {
	w.mu.Lock()
	w.lines = append(w.lines, w.name+" "+point+detail)
	w.mu.Unlock()
	if w.refuse != point {
		return nil
	}
	if w.err == nil {
		panic("witness")
	}
	return w.err
}

func (w *witness) Connected(c net.Conn) (net.Conn, error) { return c, w.at("connected", "") }

func (w *witness) BeforeCall(_ context.Context, c *tandem.Call) error {
	return w.at("before call", " "+c.Method)
}

func (w *witness) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if err := w.at("in", ""); err != nil {
			return err
		}
		return next(ctx, call)
	}
}

func (w *witness) BeforeSelect(context.Context, *tandem.Call) error {
	return w.at("before select", "")
}

func (w *witness) BeforeRequest(_ context.Context, c *tandem.Call) error {
	return w.at("before request", " to "+c.Peer.Instance)
}

func (w *witness) AfterRequest(_ context.Context, _ *tandem.Call, err error) {
	_ = w.at("after request", fmt.Sprint(" ", err))
}

func (w *witness) BeforeResponseHeader(context.Context, *tandem.Call) {
	_ = w.at("before response header", "")
}

func (w *witness) AfterResponseHeader(_ context.Context, _ *tandem.Call, err error) error {
	return errors.Join(err, w.at("after response header", fmt.Sprint(" ", err)))
}

func (w *witness) BeforeResponseBody(context.Context, *tandem.Call) error {
	return w.at("before response body", "")
}

func (w *witness) AfterResponseBody(_ context.Context, _ *tandem.Call, reply any, err error) error {
	return errors.Join(err, w.at("after response body", " "+*reply.(*string)))
}

func (w *witness) AfterCall(_ context.Context, _ *tandem.Call, end tandem.Outcome) {
	_ = w.at("after call", " "+end.Code().String())
}

func echoOnce(_ context.Context, s *string) (*string, error) { return s, nil }

func echoes(_ context.Context, s *tandem.Stream[string, string]) error {
	for m, err := range s.All() {
		if err != nil {
			return err
		}
		if err := s.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func echoing(t *testing.T, opts ...client.Option) *client.Client {
	t.Helper()
	srv := server.New()
	if err := errors.Join(server.Handle(srv, "Echo.Once", echoOnce), server.HandleStream(srv, "Echo.All", echoes)); err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	ln, err := network.Listen(t.Context(), "echo")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://echo", append(opts, client.WithTransport("mem", network),
		client.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = srv.Close()
		<-served
	})
	return c
}

func sameLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The points are called in the documented order.
func TestPluginsRunInOrder(t *testing.T) {
	n := &sightings{}
	c := echoing(t, client.WithPlugins(&witness{sightings: n, name: "1"}, &witness{sightings: n, name: "2"}))
	connect(t, c, n)
	var reply string
	if err := c.Call(t.Context(), "Echo.Once", "hi", &reply); err != nil || reply != "hi" {
		t.Fatal(reply, err)
	}
	sameLines(t, n.take(),
		"1 before call Echo.Once", "2 before call Echo.Once", "1 in", "2 in", "1 before select", "2 before select",
		"1 before request to mem://echo", "2 before request to mem://echo", "1 after request <nil>", "2 after request <nil>",
		"2 before response header", "1 before response header", "2 after response header <nil>", "1 after response header <nil>",
		"2 before response body", "1 before response body", "2 after response body hi", "1 after response body hi",
		"2 after call ok", "1 after call ok")
}

// connect makes a first call and forgets what the plugins saw of it.
func connect(t *testing.T, c *client.Client, n *sightings) {
	t.Helper()
	if err := c.Call(t.Context(), "Echo.Once", "first", new(string)); err != nil {
		t.Fatal(err)
	}
	if lines := n.take(); !slices.Contains(lines, "1 connected") {
		t.Errorf("no word of the connection: %q", lines)
	}
}

func TestPluginsSeeStreams(t *testing.T) {
	n := &sightings{}
	c := echoing(t, client.WithPlugins(&witness{sightings: n, name: "1"}))
	connect(t, c, n)
	s, err := client.Stream[string, string](t.Context(), c, "Echo.All")
	if err != nil {
		t.Fatal(err)
	}
	word := "hi"
	if err := errors.Join(s.Send(&word), s.CloseSend()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Recv(); err != nil || *got != word {
		t.Fatal(got, err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	lines, over := n.take(), "1 after call ok" // once, at any time before the receiver learns of the end
	if i := slices.Index(lines, over); i < 0 {
		t.Errorf("no %q", over)
	} else {
		lines = slices.Delete(lines, i, i+1)
	}
	sameLines(t, lines,
		"1 before call Echo.All", "1 in", "1 before select", "1 before request to mem://echo", "1 after request <nil>",
		"1 before response header", "1 after response header <nil>",
		"1 before response body", "1 after response body hi", "1 before response body")
}

// At each point a plugin that refuses, in any way, fails the call with its error, and not the
// next call.
func TestPluginsRefuse(t *testing.T) {
	early := []string{"before call", "in", "before select", "before request"}
	late := []string{"after response header", "before response body", "after response body"}
	for _, point := range append(early, late...) {
		for _, err := range []error{tandem.Errorf(tandem.FailedPrecondition, "teapot"), errors.New("teapot"), nil} {
			t.Run(fmt.Sprint(point, err), func(t *testing.T) {
				want := tandem.CodeOf(err)
				switch {
				case err == nil:
					want = tandem.Internal
				case want == tandem.Unknown && point != "in" && slices.Contains(early, point):
					want = tandem.PermissionDenied
				}
				testRefusal(t, &witness{sightings: &sightings{}, name: "1", err: err}, point, want)
			})
		}
	}
}

func testRefusal(t *testing.T, w *witness, point string, want tandem.Code) {
	c := echoing(t, client.WithPlugins(w))
	connect(t, c, w.sightings)
	w.refuse = point
	err := c.Call(t.Context(), "Echo.Once", "hi", new(string))
	if _, typed := errors.AsType[*tandem.Error](err); !typed || tandem.CodeOf(err) != want {
		t.Errorf("got %v, want %v", err, want)
	}
	if lines := w.take(); lines[len(lines)-1] != "1 after call "+want.String() {
		t.Errorf("it was told:\n%s", strings.Join(lines, "\n"))
	}
	w.refuse = ""
	if err := c.Call(t.Context(), "Echo.Once", "hi", new(string)); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A panic of a plugin at a point without an error does not fail the call.
func TestPanicAtPointWithoutError(t *testing.T) {
	for _, point := range []string{"after request", "before response header", "after call"} {
		c := echoing(t, client.WithPlugins(&witness{sightings: &sightings{}, refuse: point}))
		if err := c.Call(t.Context(), "Echo.Once", "hi", new(string)); err != nil {
			t.Errorf("%s: %v", point, err)
		}
	}
}

func TestNoPlugin(t *testing.T) {
	if _, err := client.Dial("tcp://127.0.0.1:1", client.WithPlugins(1)); err == nil || !strings.Contains(err.Error(), "implements no point") {
		t.Errorf("got %v", err)
	}
}

// stranger refuses every connection.
type stranger struct{}

func (stranger) Connected(net.Conn) (net.Conn, error) { return nil, errors.New("not this one") }

func TestPluginRefusesConnection(t *testing.T) {
	c := echoing(t, client.WithPlugins(stranger{}))
	err := c.Call(t.Context(), "Echo.Once", "hi", nil)
	if tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "not this one") {
		t.Errorf("got %v", err)
	}
}

// quick is a plugin round every call that keeps nothing, like those of this module.
type quick struct{}

func (quick) BeforeCall(_ context.Context, c *tandem.Call) error {
	c.SetMetadata("key", "value")
	return nil
}

func (quick) AfterCall(context.Context, *tandem.Call, tandem.Outcome) {}

func (quick) KeepsNothing() {}

// The points make no allocation a call, nor does metadata that a plugin sets.
func TestPointsAllocateNothing(t *testing.T) {
	without := allocations(t)
	if n := allocations(t, client.WithPlugins(quick{})); n > without {
		t.Errorf("%v allocations a call with a plugin, %v without", n, without)
	}
}

// round is a plugin round every attempt and reply that keeps nothing.
type round struct{ quick }

func (round) BeforeSelect(context.Context, *tandem.Call) error  { return nil }
func (round) BeforeRequest(context.Context, *tandem.Call) error { return nil }

func (round) AfterResponseHeader(_ context.Context, _ *tandem.Call, err error) error { return err }

func (round) BeforeResponseBody(context.Context, *tandem.Call) error { return nil }

func (round) AfterResponseBody(_ context.Context, _ *tandem.Call, _ any, err error) error {
	return err
}

// amid is a plugin with the points between the request and the response.
type amid struct{ quick }

func (amid) AfterRequest(context.Context, *tandem.Call, error) {}

func (amid) BeforeResponseHeader(context.Context, *tandem.Call) {}

func TestPointsOfAttemptsAllocateAtMostOnce(t *testing.T) {
	without := allocations(t)
	for _, c := range []struct {
		plugin any
		more   float64
	}{{round{}, 0}, {amid{}, 1}} {
		if n := allocations(t, client.WithPlugins(c.plugin)); n > without+c.more {
			t.Errorf("%T: %v allocations a call, %v without", c.plugin, n, without)
		} else {
			t.Logf("%T: %v allocations a call, %v without", c.plugin, n, without)
		}
	}
}
