//go:build integration

package registries

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

// on runs f with a cluster of three servers for each registry.
func on(t *testing.T, f func(t *testing.T, c *cluster)) {
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		t.Run(name, func(t *testing.T) { f(t, newCluster(t, backends[name](t), "a", "b", "c")) })
	}
}

// TestRegistryOutage kills the registry under load, and one of the servers during the
// outage; after that it starts a client that has a saved list of servers. No call may
// fail, and when the registry is back every running server is listed.
func TestRegistryOutage(t *testing.T) {
	on(t, func(t *testing.T, c *cluster) {
		snapshots := client.WithSnapshots(t.TempDir())
		l := startLoad(t, c.backend.target, snapshots)
		l.duringUntilAll("control", 3*time.Second, 3)
		c.backend.kill()
		l.during("the registry is down", *outage/2)
		c.kill("b")
		if by := l.during("a server is down, too", *outage/2); by["b"] > rate/10 {
			t.Errorf("a killed server answered: %v", by)
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
		t.Logf("all servers are listed %v after the registry is back", took)
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
				t.Errorf("%s answers although it was killed", id)
			}
			c.start(id)
			l.during("starting again", 4*time.Second)
		}
		c.listed(ttl+5*time.Second, "a", "b", "c")
		l.duringUntilAll("all are back", 2*time.Second, 3)
	})
}

// TestScaling adds a server under load and drains it again. The client balances round
// robin, so that the number of calls of the new server shows when the client has learned
// of it, and does not depend on the load of the machine.
func TestScaling(t *testing.T) {
	on(t, func(t *testing.T, c *cluster) {
		l := startLoad(t, c.backend.target, client.WithBalancer(balance.RoundRobin()))
		l.during("three servers", time.Second)
		c.start("d")
		c.listed(5*time.Second, "a", "b", "c", "d")
		by := l.during("a fourth server", 5*time.Second)
		if share := (by["a"] + by["b"] + by["c"] + by["d"]) / 4; by["d"] < share/2 {
			t.Errorf("in the 5 s after it was listed the new server answers %d calls of %v, its share is %d", by["d"], by, share)
		}
		c.stop("d")
		l.during("the fourth server has drained", time.Second)
		if by := l.during("three servers again", time.Second); by["d"] > 0 {
			t.Errorf("it still answers: %v", by)
		}
		c.listed(time.Second, "a", "b", "c")
	})
}
