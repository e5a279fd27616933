package nacos

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// grpcBackend is a server with both ports, the real one or the stand-in.
type grpcBackend struct {
	http, grpc string // addresses
	admin      func(t testing.TB) *backend
	apart      bool // HTTP does not know what is listed over gRPC
}

// ports are relays to both ports of a Nacos server.
type ports struct{ http, grpc *relay }

func newPorts(t testing.TB, s grpcBackend) *ports {
	t.Helper()
	port := registrytest.FreePort(t, grpcOffset)
	return &ports{
		newRelayAt(t, fmt.Sprintf("127.0.0.1:%d", port), s.http),
		newRelayAt(t, fmt.Sprintf("127.0.0.1:%d", port+grpcOffset), s.grpc),
	}
}

func (p *ports) setCut(cut bool) {
	p.http.setCut(cut)
	p.grpc.setCut(cut)
}

// target returns a target for a service that only this test uses.
func (p *ports) target(t testing.TB, service, options string) string {
	t.Helper()
	return "nacos://" + p.http.address() + "/" + groupOf(t) + "/" + service + "?api=grpc" + options
}

func grpcConformance(t *testing.T, s grpcBackend) {
	open := grpcHarness(s)
	for _, c := range registrytest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if s.apart && c.Name == "many instances" {
				return // a connection for each of them takes long under the race detector: the real server has them
			}
			h := open(t)
			if m := c.Missing(h); m != "" {
				t.Logf("not checked: the harness has no %s", m)
			} else if err := c.Run(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
}

// grpcHarness returns the function that opens a registry for a check of the suite.
func grpcHarness(s grpcBackend) func(t testing.TB) registrytest.Harness {
	return func(t testing.TB) registrytest.Harness {
		both, b := newPorts(t, s), s.admin(t)
		ttl := "&ttl=3s"
		if strings.HasSuffix(t.Name(), "/many_instances") {
			ttl = "&ttl=1m"
		}
		text := both.target(t, "Suite", ttl)
		target, err := registry.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		resolver := Resolver()
		if s.apart {
			resolver = struct{ registry.Resolver }{resolver}
		}
		return registrytest.Harness{
			Registrar:   r,
			Resolver:    resolver,
			Target:      target,
			PutDocument: func(key string, text []byte) error { return b.publish(t, path.Base(key), text) },
			// An instance is lost with its connection.
			Lose: func(string) error { both.setCut(true); both.setCut(false); return nil },
			Outage: func() (func() error, error) {
				both.setCut(true)
				return func() error { both.setCut(false); return nil }, nil
			},
			Within: 30 * time.Second,
		}
	}
}

// grpcOneAddress: of two servers with one address the one that started later is listed.
func grpcOneAddress(t *testing.T, s grpcBackend) {
	both, b := newPorts(t, s), s.admin(t)
	r, err := New(both.target(t, "S", "&ttl=3s"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := look(t, r, both.target(t, "S", ""), b.within)
	first, second := server(1), server(1)
	first.Started, second.Started = time.Now().Add(-time.Hour), time.Now()
	second.ID = "later"
	register(t, r, first)
	v.shows(t, "server-1:0")
	register(t, r, second)
	v.shows(t, "later:0")
	if _, err := r.Register(t.Context(), first); err == nil {
		t.Error("the one that started earlier was registered again")
	}
}

// TestGRPCStandIn runs the conformance suite over gRPC with a stand-in.
func TestGRPCStandIn(t *testing.T) {
	s := startGRPCStandIn(t)
	t.Run("Conformance", func(t *testing.T) { grpcConformance(t, s) })
	t.Run("OneAddress", func(t *testing.T) { grpcOneAddress(t, s) })
}
