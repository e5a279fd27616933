package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// refuser is a registrar that refuses until it is allowed.
type refuser struct {
	registry.Registrar
	allowed chan struct{}
}

func (r refuser) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	select {
	case <-r.allowed:
		return r.Registrar.Register(ctx, in)
	default:
		return nil, errors.New("not yet")
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
		time.Sleep(time.Millisecond) // until another goroutine has done it
	}
}

// A server's state counts connections by protocol, and says whether the registry has the server,
// and whether the server drains.
func TestState(t *testing.T) {
	list := refuser{registry.NewMemory(), make(chan struct{})}
	srv := server.New(server.WithRegistrar(list, tandem.Instance{ID: "a"}))
	if err := srv.RegisterFunc("A.A", func() int { return 1 }); err != nil {
		t.Fatal(err)
	}
	network := transport.NewMemory()
	c, stop := startOn(network, srv)
	defer stop()
	if err := c.Call(t.Context(), "A.A", tandem.Args{}, nil); err != nil {
		t.Fatal(err)
	}
	s := srv.State()
	if s.Connections["tandem"] != 1 || len(s.Connections) != 1 || s.Greeting != 0 || s.Draining || s.Memory != 0 {
		t.Errorf("got %+v", s)
	}
	eventually(t, "a failed registration is counted", func() bool {
		l := srv.State().Listings
		return len(l) == 1 && l[0].Failed > 0 && !l[0].Listed && l[0].Instance == "a"
	})
	close(list.allowed)
	eventually(t, "the server is listed", func() bool { return srv.State().Listings[0].Listed })
	_ = srv.Close()
	if s := srv.State(); !s.Draining || len(s.Listings) != 0 || len(s.Connections) != 0 {
		t.Errorf("at the end %+v", s)
	}
}

// A server's state is counts for monitoring; telemetry/prom exports them.
func ExampleServer_State() {
	srv := server.New()
	show := func(s server.State) {
		missing := func(l server.ListingState) bool { return !l.Listed }
		fmt.Println("connections:", len(s.Connections), "draining:", s.Draining, "not in a registry:", slices.ContainsFunc(s.Listings, missing))
	}
	show(srv.State())
	_ = srv.Close()
	show(srv.State())
	// Output:
	// connections: 0 draining: false not in a registry: false
	// connections: 0 draining: true not in a registry: false
}
