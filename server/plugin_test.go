package server_test

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
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// diary records events in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) notef(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns the events since it was last called.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// witness is a plugin with every point. It records each, and refuses at the one given by
// refuse.
type witness struct {
	*diary
	name   string
	refuse string // "point" or "point method"
	err    error
}

func (w *witness) at(point string, call *tandem.Call, detail string) error {
	w.notef("%s %s%s", w.name, point, detail)
	if w.refuse == point || call != nil && w.refuse == point+" "+call.Method {
		if w.err == nil {
			panic("witness")
		}
		return w.err
	}
	return nil
}

func (w *witness) ServiceRegistered(r *plugin.Registration) error {
	return w.at("registered", nil, " "+r.Service)
}

func (w *witness) BeforeRequestHeader(_ context.Context, c *tandem.Call) error {
	return w.at("before header", c, "")
}

func (w *witness) AfterRequestHeader(_ context.Context, c *tandem.Call) error {
	return w.at("after header", c, "")
}

func (w *witness) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if err := w.at("in", call, ""); err != nil {
			return err
		}
		err := next(ctx, call)
		w.notef("%s out", w.name)
		return err
	}
}

func (w *witness) BeforeRequestBody(_ context.Context, c *tandem.Call) error {
	return w.at("before body", c, "")
}

func (w *witness) AfterRequestBody(_ context.Context, c *tandem.Call, args any) error {
	return w.at("after body", c, fmt.Sprintf(" %s", *args.(*string)))
}

func (w *witness) BeforeResponse(_ context.Context, c *tandem.Call, reply any, err error) error {
	if s, ok := reply.(*string); ok {
		reply = *s
	}
	return w.at("before response", c, fmt.Sprintf(" %v %v", reply, err))
}

func (w *witness) AfterResponse(_ context.Context, c *tandem.Call, end tandem.Outcome) {
	_ = w.at("after response", c, " "+end.Code().String())
}

func talker(t *testing.T, opts ...server.Option) *client.Client {
	t.Helper()
	srv := server.New(append(opts, server.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err := srv.RegisterName("Talker", Talker{}); err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	serve(t, srv, network, "plugins")
	c, err := client.Dial("mem://plugins", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The order of the points is the documented one.
func TestPluginsRunInOrder(t *testing.T) {
	d := &diary{}
	first, second := &witness{diary: d, name: "1"}, &witness{diary: d, name: "2"}
	c := talker(t, server.WithPlugins(first, second), server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			d.notef("interceptor")
			return next(ctx, call)
		}
	}))
	equal(t, d.take(), "1 registered Talker", "2 registered Talker")
	var reply string
	if err := c.Call(t.Context(), "Talker.Repeat", "hi", &reply); err != nil || reply != "hi" {
		t.Fatal(reply, err)
	}
	equal(t, d.take(),
		"1 before header", "2 before header", "1 in", "2 in", "1 after header", "2 after header", "interceptor",
		"1 before body", "2 before body", "1 after body hi", "2 after body hi",
		"2 before response hi <nil>", "1 before response hi <nil>", "2 out", "1 out",
		"2 after response ok", "1 after response ok")
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A stream passes the points of bodies and responses once for each message.
func TestPluginsSeeStreams(t *testing.T) {
	d := &diary{}
	c := talker(t, server.WithPlugins(&witness{diary: d, name: "1"}))
	d.take()
	s, err := client.Stream[string, string](t.Context(), c, "Talker.Chat")
	if err != nil {
		t.Fatal(err)
	}
	word := "hi"
	err = errors.Join(s.Send(&word), s.CloseSend())
	if got, err2 := s.Recv(); err != nil || err2 != nil || *got != word {
		t.Fatal(got, err, err2)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	equal(t, d.take(),
		"1 before header", "1 in", "1 after header", "1 before body", "1 after body hi", "1 before response hi <nil>",
		"1 before body", "1 out", "1 before response <nil> <nil>", "1 after response ok")
}

// A call fails with the error of the point that refuses it. The other plugin still gets
// AfterResponse, and other calls go on.
func TestPluginsRefuse(t *testing.T) {
	teapot := &tandem.Error{Code: tandem.FailedPrecondition, Message: "teapot"}
	for _, point := range []string{"before header", "in", "after header", "before body", "after body", "before response"} {
		for _, c := range []struct {
			err  error
			code tandem.Code
		}{{teapot, tandem.FailedPrecondition}, {errors.New("teapot"), tandem.PermissionDenied}, {nil, tandem.Internal}} {
			t.Run(fmt.Sprint(point, c.code), func(t *testing.T) { testRefusal(t, point, c.err, c.code) })
		}
	}
}

func testRefusal(t *testing.T, point string, refusal error, code tandem.Code) {
	d := &diary{}
	w := &witness{diary: d, name: "1", refuse: point + " Talker.Repeat", err: refusal}
	bystander := &witness{diary: d, name: "2"}
	c := talker(t, server.WithPlugins(w, bystander))
	if refusal != nil && code == tandem.PermissionDenied && (point == "in" || point == "before response") {
		code = tandem.Unknown // errors of these points are like a method's
	}
	err := c.Call(t.Context(), "Talker.Repeat", "hi", nil)
	e, ok := errors.AsType[*tandem.Error](err)
	if !ok || e.Code != code || !e.Remote || refusal != nil && e.Message != "teapot" {
		t.Errorf("got %v, want %v", err, code)
	}
	lines := d.take()
	if n := len(lines); n < 2 || lines[n-1] != "1 after response "+code.String() || lines[n-2] != "2 after response "+code.String() {
		t.Errorf("the plugins were told:\n%s", strings.Join(lines, "\n"))
	}
	w.refuse = ""
	if err := c.Call(t.Context(), "Talker.Repeat", "hi", nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A call that a plugin refuses before the method runs is known not to have executed, also if
// another plugin replaces its error.
func TestRefusedIsNotExecuted(t *testing.T) {
	d := &diary{}
	w := &witness{diary: d, refuse: "after header", err: errors.New("no")}
	other := &witness{diary: d, refuse: "before response", err: errors.New("another word for no")}
	for _, plugins := range [][]any{{w}, {other, w}} {
		c := talker(t, server.WithPlugins(plugins...))
		if err := c.Call(t.Context(), "Talker.Repeat", "hi", nil); err == nil || tandem.MayHaveExecuted(err) {
			t.Errorf("got %v, which may have run", err)
		}
	}
}

// A plugin that panics in AfterResponse changes neither the call's result nor what the other
// plugins get.
func TestPluginPanicsAtTheEnd(t *testing.T) {
	d := &diary{}
	c := talker(t, server.WithPlugins(&witness{diary: d, name: "1"}, &witness{diary: d, name: "2", refuse: "after response"}))
	if err := c.Call(t.Context(), "Talker.Repeat", "hi", nil); err != nil {
		t.Error(err)
	}
	if lines := d.take(); lines[len(lines)-1] != "1 after response ok" {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
}

func TestPluginRefusesRegistration(t *testing.T) {
	w := &witness{diary: &diary{}, refuse: "registered", err: errors.New("not here")}
	srv := server.New(server.WithPlugins(w))
	if err := srv.RegisterName("Talker", Talker{}); err == nil || !strings.Contains(err.Error(), "not here") {
		t.Errorf("got %v", err)
	}
	if m := srv.Methods(); len(m) != 0 {
		t.Errorf("it serves %q", m)
	}
	w.refuse = ""
	if err := srv.RegisterName("Talker", Talker{}); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// gate counts connections, wraps those that it accepts, and refuses further ones.
type gate struct {
	diary

	left int
}

type marked struct{ net.Conn }

func (g *gate) ConnAccepted(c net.Conn) (net.Conn, error) {
	g.mu.Lock()
	g.left--
	refuse := g.left < 0
	g.mu.Unlock()
	if refuse {
		g.notef("refused")
		return nil, errors.New("full")
	}
	g.notef("accepted")
	return marked{c}, nil
}

func (g *gate) ConnClosed(c net.Conn, _ error) {
	_, wrapped := c.(marked)
	g.notef("closed, wrapped %v", wrapped)
}

func TestPluginsSeeConnections(t *testing.T) {
	g := &gate{left: 1}
	outer := &gate{left: 2}
	srv := server.New(server.WithPlugins(outer, g))
	network := transport.NewMemory()
	serve(t, srv, network, "gate")
	c, err := client.Dial("mem://gate", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "No.Method", nil, nil); tandem.CodeOf(err) != tandem.Unimplemented {
		t.Errorf("got %v", err)
	}
	refused, err := network.Dial(t.Context(), "gate")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := refused.Read(make([]byte, 1)); err == nil {
		t.Errorf("the refused connection brought %d bytes", n)
	}
	_ = refused.Close()
	if err := errors.Join(c.Close(), srv.Close()); err != nil {
		t.Error(err)
	}
	equal(t, slices.Sorted(slices.Values(g.take())), "accepted", "closed, wrapped true", "refused")
	equal(t, slices.Sorted(slices.Values(outer.take())), "accepted", "accepted", "closed, wrapped false", "closed, wrapped false")
}

func TestNoPlugin(t *testing.T) {
	srv := server.New(server.WithPlugins(struct{}{}))
	if err := srv.Serve("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "implements no point") {
		t.Errorf("got %v", err)
	}
}
