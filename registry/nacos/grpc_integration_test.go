//go:build integration

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

// ports are relays to both ports of a Nacos server.
type ports struct{ http, grpc *relay }

func newPorts(t testing.TB, p *process) *ports {
	t.Helper()
	port := registrytest.FreePort(t, grpcOffset)
	return &ports{
		newRelayAt(t, fmt.Sprintf("127.0.0.1:%d", port), p.address()),
		newRelayAt(t, fmt.Sprintf("127.0.0.1:%d", port+grpcOffset), fmt.Sprintf("127.0.0.1:%d", p.port+grpcOffset)),
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

// TestRealGRPC runs the conformance suite, and what else there is, over gRPC.
func TestRealGRPC(t *testing.T) {
	p := startNacos(t, nil)
	t.Run("Conformance", func(t *testing.T) { grpcConformance(t, p) })
	t.Run("SeenOverHTTP", func(t *testing.T) { grpcAndHTTP(t, p) })
	t.Run("OneAddress", func(t *testing.T) { grpcOneAddress(t, p) })
	t.Run("Killed", func(t *testing.T) { grpcKilled(t, p) })
}

func grpcConformance(t *testing.T, p *process) {
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		both, b := newPorts(t, p), p.backend(t)
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
		return registrytest.Harness{
			Registrar:   r,
			Resolver:    Resolver(),
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
	})
}

// grpcAndHTTP: what is listed over gRPC is found over HTTP, and the other way round; a change
// arrives much sooner than a poll would see it.
func grpcAndHTTP(t *testing.T, p *process) {
	both, b := newPorts(t, p), p.backend(t)
	overHTTP := strings.Replace(both.target(t, "S", ""), "?api=grpc", "?api=http", 1)
	r, err := New(both.target(t, "S", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	old, err := New(overHTTP)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	v, w := look(t, r, both.target(t, "S", ""), b.within), look(t, old, overHTTP, b.within)
	register(t, r, server(1))
	v.shows(t, "server-1:0")
	w.shows(t, "server-1:0")
	register(t, old, server(2))
	v.shows(t, "server-1:0 server-2:0")
	w.shows(t, "server-1:0 server-2:0")
}

// grpcOneAddress: of two servers with one address the one that started later is listed.
func grpcOneAddress(t *testing.T, p *process) {
	both, b := newPorts(t, p), p.backend(t)
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

// grpcKilled kills Nacos while there are 100 registrations, and starts it again with an empty home.
func grpcKilled(t *testing.T, p *process) {
	both, b := newPorts(t, p), p.backend(t)
	r, err := New(both.target(t, "S", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := look(t, r, both.target(t, "S", ""), b.within)
	for i := range 100 {
		register(t, r, server(i))
	}
	all := func(s registry.Snapshot) bool { return s.Err == nil && len(s.Instances) == 100 }
	v.until(t, "100 instances", all)
	p.kill()
	v.until(t, "an error", func(s registry.Snapshot) bool { return s.Err != nil })
	p.home = t.TempDir()
	p.start()
	begin := time.Now()
	v.until(t, "100 instances", all)
	t.Logf("100 instances were listed again %v after the server was up", time.Since(begin))
}
