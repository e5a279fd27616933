package all_test

import (
	"context"
	"log/slog"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

// tour is a plugin that records the points that a call passes, and refuses calls with a
// certain argument.
type tour struct {
	mu    sync.Mutex
	stops []string
}

func (p *tour) stop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops = append(p.stops, name)
}

func (p *tour) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	stops := p.stops
	p.stops = nil
	return stops
}

func (p *tour) ConnAccepted(c net.Conn) (net.Conn, error) { p.stop("accepted"); return c, nil }

func (p *tour) ConnClosed(net.Conn, error) { p.stop("closed") }

func (p *tour) BeforeRequestHeader(context.Context, *tandem.Call) error {
	p.stop("before header")
	return nil
}

func (p *tour) AfterRequestHeader(context.Context, *tandem.Call) error {
	p.stop("after header")
	return nil
}

func (p *tour) BeforeRequestBody(context.Context, *tandem.Call) error {
	p.stop("before body")
	return nil
}

func (p *tour) AfterRequestBody(_ context.Context, _ *tandem.Call, args any) error {
	p.stop("after body")
	if *args.(*string) == "forbidden" {
		return tandem.Errorf(tandem.PermissionDenied, "a forbidden word")
	}
	return nil
}

func (p *tour) BeforeResponse(context.Context, *tandem.Call, any, error) error {
	p.stop("before response")
	return nil
}

func (p *tour) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	p.stop("after response: " + end.Code().String())
}

// caller makes a call over one protocol.
type caller func(method string, args, reply any) error

// dialers are clients of the protocols on one port for which the standard library, or this
// module, has one.
var dialers = map[string]func(t *testing.T, address string) (caller, func() error){
	"tandem": func(t *testing.T, address string) (caller, func() error) {
		c, err := client.Dial("tcp://" + address)
		if err != nil {
			t.Fatal(err)
		}
		return func(method string, args, reply any) error {
			return c.Call(context.Background(), method, args, reply)
		}, c.Close
	},
	"netrpc":  standard(rpc.Dial),
	"jsonrpc": standard(jsonrpc.Dial),
}

func standard(dial func(network, address string) (*rpc.Client, error)) func(t *testing.T, address string) (caller, func() error) {
	return func(t *testing.T, address string) (caller, func() error) {
		c, err := dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return c.Call, c.Close
	}
}

// Calls of every protocol pass the same points, in the same order, and a refusal reaches
// the client.
func TestPluginsOnSeveralProtocols(t *testing.T) {
	for name, dial := range dialers {
		t.Run(name, func(t *testing.T) { testPoints(t, dial) })
	}
}

func testPoints(t *testing.T, dial func(*testing.T, string) (caller, func() error)) {
	p := &tour{}
	srv := server.New(server.WithProtocols(all.New()...), server.WithPlugins(p), server.WithLogger(slog.New(slog.DiscardHandler)))
	check(srv.RegisterFunc("Text.Len", func(s string) int { return len(s) }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	call, end := dial(t, ln.Addr().String())
	var n int
	if err := call("Text.Len", "seven", &n); err != nil || n != 5 {
		t.Error(n, err)
	}
	if err := call("Text.Len", "forbidden", &n); err == nil || !strings.Contains(err.Error(), "a forbidden word") {
		t.Errorf("the refused call: %v", err)
	}
	check(end())
	check(srv.Close())
	<-served
	want := []string{
		"accepted",
		"before header", "after header", "before body", "after body", "before response", "after response: ok",
		"before header", "after header", "before body", "after body", "before response", "after response: permission denied",
		"closed",
	}
	if got := p.take(); !slices.Equal(got, want) {
		t.Errorf("got:\n%s", strings.Join(got, "\n"))
	}
}
