//go:build integration

package zookeeper

import (
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// logged returns an option for a log that is shown when the test fails.
func logged(t testing.TB) Option {
	return WithLogger(slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// lists counts the lists of these tests. Each has its own directory.
var lists atomic.Int64

// target returns a target with a directory that no other test uses.
func target(address, options string) string {
	return fmt.Sprintf("zookeeper://%s/tandem/list%d%s", address, lists.Add(1), options)
}

func mustParse(t testing.TB, s string) registry.Target {
	t.Helper()
	parsed, err := registry.ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func open(t testing.TB, target string, opts ...Option) *Registry {
	t.Helper()
	r, err := New(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestConformance runs the suite with deleted nodes and a killed server. The sessions
// survive both.
func TestConformance(t *testing.T) {
	s := startServer(t)
	other := s.connect(t)
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		where := target(s.address(), "?ttl=4s")
		parsed := mustParse(t, where)
		return registrytest.Harness{
			Registrar: open(t, where, logged(t)),
			Resolver:  Resolver(logged(t)),
			Target:    parsed,
			Aliases:   []registry.Target{{Scheme: "zookeeper", Authority: parsed.Authority, Path: parsed.Path, Query: url.Values{"layout": {"rpcx"}, "acl": {"open"}}}},
			Lose:      func(id string) error { return other.Delete(parsed.Path+"/"+escape(id), -1) },
			Outage: func() (func() error, error) {
				s.kill()
				return func() error { s.start(); return nil }, nil
			},
			Within: 15 * time.Second,
		}
	})
}

// TestConformanceOfSessions runs the rest of the suite with sessions that end without
// the client's doing, and a server that hangs for at least two thirds of their timeout.
func TestConformanceOfSessions(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, c := range registrytest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			relay := startRelay(t, s.address())
			where := target(relay.address(), "?ttl=3s")
			h := registrytest.Harness{
				Registrar: open(t, where, logged(t)),
				Resolver:  Resolver(logged(t)),
				Target:    mustParse(t, where),
				Within:    15 * time.Second,
			}
			if c.Missing(h) == "" {
				return // TestConformance runs it
			}
			h.Lose = func(string) error { return relay.endSessions() }
			h.Outage = func() (func() error, error) { return s.thaw, s.freeze() }
			if err := c.Run(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
}
