//go:build integration

package e2e

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
)

var outage = flag.Duration("outage", 10*time.Second, "how long the registry is down; make registry-outage has five minutes")

// on runs f with every registry.
func on(t *testing.T, f func(t *testing.T, c *cluster)) {
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		t.Run(name, func(t *testing.T) { f(t, newCluster(t, backends[name](t), "a", "b", "c")) })
	}
}

// TestRegistryOutage kills the registry under load, one of the servers in the middle
// of it, and starts a client then that knows the servers from the last time. No call
// may fail, and when the registry is back every server that lives is listed.
func TestRegistryOutage(t *testing.T) {
	on(t, func(t *testing.T, c *cluster) {
		snapshots := client.WithSnapshots(t.TempDir())
		l := startLoad(t, c.backend.target, snapshots)
		l.duringUntilAll("control", 3*time.Second, 3)
		c.backend.kill()
		l.during("the registry is dead", *outage/2)
		c.kill("b")
		if by := l.during("and a server", *outage/2); by["b"] > rate/10 {
			t.Errorf("a dead server answered: %v", by)
		}
		began := time.Now()
		late := startLoad(t, c.backend.target, snapshots)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a client that starts without the registry makes its first call after %v", took)
		}
		late.during("a client that starts without the registry", 2*time.Second)
		began = time.Now()
		c.backend.start()
		took := c.listed(ttl+5*time.Second, "a", "c")
		t.Logf("the registry is back, and says so after %v", took)
		l.want("the registry comes back", time.Since(began)+2*time.Second)
		l.during("the registry is back", 3*time.Second)
	})
}

// TestKilledServer kills servers under load and starts them again.
func TestKilledServer(t *testing.T) {
	on(t, func(t *testing.T, c *cluster) {
		l := startLoad(t, c.backend.target)
		l.during("control", time.Second)
		for _, id := range []string{"a", "b", "c"} {
			c.kill(id)
			l.during("at the moment of the kill", 200*time.Millisecond)
			if by := l.during("after the kill", 2*time.Second); by[id] > 0 {
				t.Errorf("%s answers although it is dead", id)
			}
			c.start(id)
			l.during("starting again", 4*time.Second)
		}
		c.listed(ttl+5*time.Second, "a", "b", "c")
		l.duringUntilAll("all are back", 2*time.Second, 3)
	})
}

// TestScaling adds a server under load and takes it away again. Servers have turns, so
// that how many calls the new one gets says when clients have learned of it, and not how
// the machine was busy.
func TestScaling(t *testing.T) {
	on(t, func(t *testing.T, c *cluster) {
		l := startLoad(t, c.backend.target, client.WithBalancer(balance.RoundRobin()))
		l.during("three servers", time.Second)
		c.start("d")
		c.listed(5*time.Second, "a", "b", "c", "d")
		by := l.during("a fourth begins", 5*time.Second)
		if share := (by["a"] + by["b"] + by["c"] + by["d"]) / 4; by["d"] < share/2 {
			t.Errorf("in the 5 s after it was listed the new server answers %d calls of %v, its share is %d", by["d"], by, share)
		}
		c.stop("d")
		l.during("it ends in good order", time.Second)
		if by := l.during("three servers again", time.Second); by["d"] > 0 {
			t.Errorf("it still answers: %v", by)
		}
		c.listed(time.Second, "a", "b", "c")
	})
}
