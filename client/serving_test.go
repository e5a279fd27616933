package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// ledger records how calls ended that a client served, and panics.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

func (l *ledger) notef(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *ledger) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func (l *ledger) ForMethod(m server.Method) any {
	l.notef("for %q", m.Name)
	return tally{l}
}

func (l *ledger) Panicked(what string, value any, _ []byte) { l.notef("%s panicked: %v", what, value) }

type tally struct{ *ledger }

func (e tally) AfterRequestBody(_ context.Context, _ *tandem.Call, args any) error {
	e.notef("args %v", *args.(*string))
	return nil
}

func (e tally) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	e.notef("%s %v", call.Method, end.Code())
}

// lamp is a client that serves, and returns the server's caller for it.
func lamp(t *testing.T, plugins ...any) tandem.Caller {
	t.Helper()
	srv := server.New(server.WithClients(nil), server.WithLogger(slog.New(slog.DiscardHandler)))
	network := transport.NewMemory()
	ln, err := network.Listen(t.Context(), "home")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://home", client.WithTransport("mem", network), client.WithID("lamp"),
		client.WithLogger(slog.New(slog.DiscardHandler)), client.WithPlugins(client.Serving(plugins)),
		client.WithFunc("Lamp.Say", func(_ context.Context, s *string) (*string, error) {
			if *s == "panic" {
				panic("on purpose")
			}
			return new(strings.ToUpper(*s)), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = srv.Close()
		<-served
	})
	if err := srv.AwaitClient(t.Context(), "lamp"); err != nil {
		t.Fatal(err)
	}
	return srv.Client("lamp")
}

// Calls that a client serves pass plugins like those of a server.
func TestServingPlugins(t *testing.T) {
	l := &ledger{}
	c := lamp(t, l)
	if got := l.take(); !slices.Equal(got, []string{`for "Lamp.Say"`}) {
		t.Errorf("when it is registered: %q", got)
	}
	for _, step := range []struct {
		method, said string
		code         tandem.Code
		want         []string
	}{
		{"Lamp.Say", "hello", tandem.OK, []string{"args hello", "Lamp.Say ok"}},
		{"Lamp.Say", "panic", tandem.Internal, []string{"args panic", "Lamp.Say panicked: on purpose", "Lamp.Say internal"}},
		{"Lamp.Nope", "hello", tandem.Unimplemented, []string{`for ""`, "Lamp.Nope unimplemented"}},
		{"Lamp.Nope", "again", tandem.Unimplemented, []string{"Lamp.Nope unimplemented"}},
	} {
		_, err := client.Invoke[string](t.Context(), c, step.method, step.said)
		if tandem.CodeOf(err) != step.code {
			t.Errorf("%s: %v", step.method, err)
		}
		if got := l.take(); !slices.Equal(got, step.want) {
			t.Errorf("%s(%s): %q, want %q", step.method, step.said, got, step.want)
		}
	}
}

// A client asks its server for credentials.
func TestServingAuth(t *testing.T) {
	known := func(_ context.Context, token string) (any, error) {
		if token == "home" {
			return token, nil
		}
		return nil, errors.New("nobody knows you")
	}
	c := lamp(t, auth.New(auth.Bearer(known)))
	for token, want := range map[string]tandem.Code{"": tandem.Unauthenticated, "street": tandem.Unauthenticated, "home": tandem.OK} {
		var opts []tandem.CallOption
		if token != "" {
			opts = append(opts, client.Metadata("authorization", "Bearer "+token))
		}
		for method, code := range map[string]tandem.Code{"Lamp.Say": want, "Lamp.Nope": max(want, tandem.Unimplemented)} {
			if _, err := client.Invoke[string](t.Context(), c, method, "x", opts...); tandem.CodeOf(err) != code {
				t.Errorf("%s by %q: %v, want %v", method, token, err, code)
			}
		}
	}
}

// Dial refuses a value that is no plugin.
func TestServingPluginsAreChecked(t *testing.T) {
	_, err := client.Dial("tcp://127.0.0.1:1", client.WithPlugins(client.Serving{42}))
	if err == nil || !strings.Contains(err.Error(), "int implements no point of client.Serving") {
		t.Errorf("got %v", err)
	}
}
