package server_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// nameless records the methods that its ForMethod is called for.
type nameless struct{ *diary }

func (n nameless) ForMethod(m server.Method) any {
	n.notef("for %q", m.Name)
	return nil
}

// absentTest returns a server with those plugins and no methods, and a client of it.
func absentTest(t *testing.T, plugins ...any) (*server.Server, *client.Client) {
	t.Helper()
	srv := server.New(server.WithPlugins(plugins...), server.WithLogger(slog.New(slog.DiscardHandler)))
	network := transport.NewMemory()
	serve(t, srv, network, "absent")
	c, err := client.Dial("mem://absent", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return srv, c
}

// Calls of any kind to a method that does not exist pass the points that need no arguments.
func TestMissingMethodsPassThePoints(t *testing.T) {
	d := &diary{}
	_, c := absentTest(t, &witness{diary: d, name: "w"}, nameless{d})
	ctx := t.Context()
	want := []string{"w before header", "w in", "w after header", "w out",
		"w before response <nil> unimplemented: no method \"Talker.Nope\" here", "w after response unimplemented"}
	calls := map[string]func() error{
		"unary": func() error { return c.Call(ctx, "Talker.Nope", "x", nil) },
		"large": func() error { return c.Call(ctx, "Talker.Nope", strings.Repeat("x", 1<<20), nil) },
		"stream": func() error {
			s, err := client.Stream[string, string](ctx, c, "Talker.Nope")
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
	}
	if err := calls["unary"](); tandem.CodeOf(err) != tandem.Unimplemented {
		t.Fatal(err)
	}
	if got := d.take(); !slices.Equal(got, append([]string{`for ""`}, want...)) {
		t.Errorf("the first: %q", got)
	}
	for name, call := range calls {
		if err := call(); tandem.CodeOf(err) != tandem.Unimplemented || tandem.MayHaveExecuted(err) {
			t.Errorf("%s: %v", name, err)
		}
		if got := d.take(); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := c.Notify(ctx, "Talker.Nope", strings.Repeat("x", 1<<20)); err != nil {
		t.Errorf("one-way: %v", err)
	}
	if err := calls["unary"](); tandem.CodeOf(err) != tandem.Unimplemented {
		t.Errorf("after a one-way call: %v", err)
	}
}

// A caller of a missing method gets the error of the plugin that refuses; a panic of the plugin
// fails only that call.
func TestPluginsRefuseMissingMethods(t *testing.T) {
	for point, want := range map[string]tandem.Code{
		"before header": tandem.Unauthenticated, "in": tandem.Unauthenticated, "after header": tandem.Unauthenticated,
		"before response": tandem.Unauthenticated,
	} {
		_, c := absentTest(t, &witness{diary: &diary{}, refuse: point, err: tandem.Errorf(want, "not you")})
		if err := c.Call(t.Context(), "Talker.Nope", "x", nil); tandem.CodeOf(err) != want {
			t.Errorf("%s: %v", point, err)
		}
		_, c = absentTest(t, &witness{diary: &diary{}, refuse: point})
		if err := c.Call(t.Context(), "Talker.Nope", "x", nil); tandem.CodeOf(err) != tandem.Internal {
			t.Errorf("%s, a panic: %v", point, err)
		}
	}
}

// A plugin that decodes the arguments of a missing method gets an error.
func TestMissingMethodsHaveNoArguments(t *testing.T) {
	var failed error
	_, c := absentTest(t, peeking(func(_ context.Context, call *tandem.Call) {
		failed = errors.Join(call.Body.Decode(new(string)), call.Body.Encode("x"))
	}))
	_ = c.Call(t.Context(), "Talker.Nope", "x", nil)
	if failed == nil || strings.Count(failed.Error(), "no method") != 2 {
		t.Errorf("got %v", failed)
	}
}

// peeking is a plugin that looks at calls.
type peeking func(context.Context, *tandem.Call)

func (p peeking) AfterRequestHeader(ctx context.Context, call *tandem.Call) error {
	p(ctx, call)
	return nil
}

// A method that is registered later is found on a connection that has called it before.
func TestMissingMethodsAreFoundLater(t *testing.T) {
	d := &diary{}
	srv, c := absentTest(t, &witness{diary: d, name: "w"})
	for range 3 {
		if err := c.Call(t.Context(), "Talker.Later", "x", nil); tandem.CodeOf(err) != tandem.Unimplemented {
			t.Fatal(err)
		}
	}
	if err := srv.RegisterFunc("Talker.Later", strings.ToUpper); err != nil {
		t.Fatal(err)
	}
	said, err := client.Invoke[string](t.Context(), c, "Talker.Later", "x")
	if err != nil || *said != "X" {
		t.Errorf("got %v, %v", said, err)
	}
}
