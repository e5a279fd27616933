package points

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

// A plugin's error replaces that of the call, and says nothing about whether the call ran.
func TestReplaced(t *testing.T) {
	refused := &tandem.Error{Code: tandem.PermissionDenied, NotExecuted: true}
	failed := &tandem.Error{Code: tandem.NotFound}
	claims := &tandem.Error{Code: tandem.Unavailable, NotExecuted: true}
	plain := errors.New("plain")
	for name, c := range map[string]struct {
		cause, err  error
		code        tandem.Code
		notExecuted bool
	}{
		"nil leaves success":                {nil, nil, tandem.OK, false},
		"nil leaves an error":               {refused, nil, tandem.PermissionDenied, true},
		"a nil *Error leaves an error":      {failed, (*tandem.Error)(nil), tandem.NotFound, false},
		"the same error":                    {refused, refused, tandem.PermissionDenied, true},
		"an error of a call that ran":       {failed, claims, tandem.Unavailable, false},
		"an error of a call that succeeded": {nil, claims, tandem.Unavailable, false},
		"an error of a call that never ran": {refused, failed, tandem.NotFound, true},
		"an error without a code":           {nil, plain, tandem.Unknown, false},
		"an error with the code OK":         {nil, &tandem.Error{}, tandem.Unknown, false},
	} {
		got := replaced(c.cause, c.err)
		if tandem.CodeOf(got) != c.code || got != nil && tandem.MayHaveExecuted(got) == c.notExecuted {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if !claims.NotExecuted || failed.NotExecuted {
		t.Error("an error of a plugin was changed")
	}
}

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err  error
		code tandem.Code
	}{
		{errors.New("no"), tandem.PermissionDenied},
		{&tandem.Error{}, tandem.PermissionDenied},
		{&tandem.Error{Code: tandem.ResourceExhausted}, tandem.ResourceExhausted},
	} {
		if e := Refusal(c.err); e.Code != c.code || !e.NotExecuted {
			t.Errorf("%v: %+v", c.err, e)
		}
	}
}

// ender records its name when a call ends, and then panics if it has one.
type ender struct {
	name string
	seen *[]string
}

func (e ender) AfterCall(context.Context, *tandem.Call, tandem.Outcome) {
	*e.seen = append(*e.seen, e.name)
	if e.name != "" {
		panic(e.name)
	}
}

// At a point that can't fail the call, each panic is reported and the other plugins are called.
func TestPanicsAtTheEndStopNoPlugin(t *testing.T) {
	var seen, reported []string
	p := OfClient([]any{ender{"", &seen}, ender{"b", &seen}, ender{"c", &seen}}, func(what string, value any, _ []byte) {
		reported = append(reported, what+": "+value.(string))
	})
	call := &tandem.Call{Method: "A.B"}
	if err := p.Call(t.Context(), call, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if !slices.Equal(seen, []string{"c", "b", ""}) || !slices.Equal(reported, []string{"a plugin at A.B: c", "a plugin at A.B: b"}) {
		t.Errorf("called %q, reported %q", seen, reported)
	}
}

type toucher struct {
	touch func(net.Conn) (net.Conn, error)
}

func (t toucher) Connected(c net.Conn) (net.Conn, error) { return t.touch(c) }

func TestConnected(t *testing.T) {
	conn, peer := net.Pipe()
	defer peer.Close()
	wrapped := struct{ net.Conn }{conn}
	report := func(string, any, []byte) {}
	for name, c := range map[string]struct {
		touch func(net.Conn) (net.Conn, error)
		fails string
	}{
		"passes":  {func(c net.Conn) (net.Conn, error) { return c, nil }, ""},
		"wraps":   {func(net.Conn) (net.Conn, error) { return wrapped, nil }, ""},
		"nil":     {func(net.Conn) (net.Conn, error) { return nil, nil }, "points.toucher.Connected returned no connection"},
		"refuses": {func(c net.Conn) (net.Conn, error) { return c, errors.New("no") }, "refused by a plugin: no"},
		"panics":  {func(net.Conn) (net.Conn, error) { panic("no") }, "points.toucher.Connected panicked"},
	} {
		got, err := OfClient([]any{toucher{c.touch}}, report).Connected(conn)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil, (got == conn) != (name == "passes"):
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

type nothing struct{}

func (nothing) KeepsNothing() {}

func TestKindsOfPlugins(t *testing.T) {
	for _, p := range []any{nil, 1, nothing{}} {
		if IsOfServer(p) || IsOfClient(p) || IsOfMethods(p) {
			t.Errorf("%T has a point", p)
		}
	}
	if OfClient(nil, nil) != nil || OfMethod([]any{nothing{}}, plugin.Method{}, nil) != nil || OfClient([]any{nothing{}}, nil).Attempts() != nil {
		t.Error("points without plugins that have one")
	}
	if Keep([]any{nothing{}}) || !Keep([]any{nothing{}, 1}) {
		t.Error("Keep does not see the promise")
	}
}
