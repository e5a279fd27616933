//go:build integration

package nacos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// TestRealGRPC runs the conformance suite, and what else there is, over gRPC.
func TestRealGRPC(t *testing.T) {
	p := startNacos(t, nil)
	s := grpcBackend{p.address(), fmt.Sprintf("127.0.0.1:%d", p.port+grpcOffset), p.backend, false}
	t.Run("Conformance", func(t *testing.T) { grpcConformance(t, s) })
	t.Run("SeenOverHTTP", func(t *testing.T) { grpcAndHTTP(t, s) })
	t.Run("OneAddress", func(t *testing.T) { grpcOneAddress(t, s) })
	t.Run("Killed", func(t *testing.T) { grpcKilled(t, p, s) })
}

// grpcAndHTTP: what is listed over gRPC is found over HTTP, and the other way round; a change
// arrives much sooner than a poll would see it.
func grpcAndHTTP(t *testing.T, s grpcBackend) {
	both, b := newPorts(t, s), s.admin(t)
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

// grpcKilled kills Nacos while there are 100 registrations, and starts it again with an empty home.
func grpcKilled(t *testing.T, p *process, s grpcBackend) {
	both, b := newPorts(t, s), s.admin(t)
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
