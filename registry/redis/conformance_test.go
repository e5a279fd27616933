//go:build integration

package redis

import (
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// harness returns what the suite needs to test a list on a server.
func harness(t testing.TB, s *server, outage func() (func() error, error)) registrytest.Harness {
	const list = "prod/Arith"
	target := s.target(list + "?ttl=2s")
	r, err := New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	admin := s.admin()
	return registrytest.Harness{
		Registrar: r,
		Resolver:  Resolver(),
		Target:    mustParse(t, target),
		Aliases:   []registry.Target{mustParse(t, s.target(list)), mustParse(t, s.target("/"+list+"/?db=0"))},
		Lose: func(id string) error {
			admin.ZRem(t.Context(), keys(list)[1], id)
			return admin.HDel(t.Context(), keys(list)[0], id).Err()
		},
		Outage: outage,
		Within: 12 * time.Second,
	}
}

func TestConformance(t *testing.T) {
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		s := start(t)
		return harness(t, s, func() (func() error, error) {
			s.kill()
			return func() error { s.run(); return nil }, nil
		})
	})
}

// TestOutageWhenStopped: a stopped server accepts connections and does not respond. When it
// continues, the time to live of every instance has passed.
func TestOutageWhenStopped(t *testing.T) {
	for _, c := range registrytest.Checks() {
		if c.Name != "an outage is an error, never an empty list" {
			continue
		}
		s := start(t)
		h := harness(t, s, func() (func() error, error) {
			return func() error { return s.signal(syscall.SIGCONT) }, s.signal(syscall.SIGSTOP)
		})
		if err := c.Run(t.Context(), h); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("the suite has no such check")
}
