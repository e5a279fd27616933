package client_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// A server that is silent for three seconds makes no call fail, in any fail mode, alone or
// among others. Idempotent calls go elsewhere under Failover and Backup, others wait.
func TestSilentServerFailsNoCall(t *testing.T) {
	for name, row := range map[string]struct {
		mode       tandem.FailMode
		idempotent bool
		leaves     bool
	}{
		"failfast":                 {client.Failfast, true, false},
		"failtry":                  {client.Failtry, true, false},
		"failover":                 {client.Failover, true, true},
		"failover, not idempotent": {client.Failover, false, false},
		"backup":                   {client.Backup, true, true},
	} {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprint(name, " of ", n), func(t *testing.T) {
				inFrost(t, n, func(t *testing.T, network *frost, cl *cluster, c *client.Client) {
					const pause, found = 3 * time.Second, 2 * time.Second
					opts := []tandem.CallOption{client.FailMode(row.mode)}
					if row.idempotent {
						opts = append(opts, client.Idempotent())
					}
					network.freeze("a")
					time.AfterFunc(pause, func() { network.thaw("a") })
					start := time.Now()
					var all sync.WaitGroup
					for range 30 {
						all.Go(func() {
							at, began := "", time.Now()
							if err := c.Call(t.Context(), "Test.Do", "", &at, append(opts, client.Timeout(10*time.Second))...); err != nil {
								t.Errorf("a call after %v: %v", began.Sub(start), err)
							}
							if row.leaves && n > 1 && time.Since(began) > found {
								t.Errorf("a call after %v took %v", began.Sub(start), time.Since(began))
							}
							if !row.leaves && at == "a" && time.Since(start) < pause {
								t.Errorf("a call after %v was answered by the silent server", began.Sub(start))
							}
							if n > 1 && at == "a" && began.Sub(start) > found && began.Sub(start) < pause {
								t.Errorf("a call after %v went to the suspect", began.Sub(start))
							}
						})
						time.Sleep(100 * time.Millisecond) // virtual
					}
					all.Wait()
				})
			})
		}
	}
}

// When the retry budget is used up, calls wait where they are.
func TestSpentBudgetWaits(t *testing.T) {
	inFrost(t, 2, func(t *testing.T, network *frost, cl *cluster, c *client.Client) {
		network.freeze("a")
		time.AfterFunc(3*time.Second, func() { network.thaw("a") })
		start := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := c.Call(t.Context(), "Test.Do", "", nil, client.FailMode(client.Failover), client.Idempotent(), client.Timeout(10*time.Second)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took < 3*time.Second {
			t.Errorf("all were answered after %v", took)
		}
		if cl.at("b") != 10 {
			t.Errorf("%d calls left the suspect without paying", cl.at("b")-10)
		}
	}, client.WithAttempts(client.Attempts{Budget: &policy.Budget{}}))
}

// A call whose route allows no other instance stays at a suspect: otherwise it would go there
// again, run twice and use up the budget.
func TestRouteKeepsCallsAtASuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 2, func(_ context.Context, at string) (string, error) { return at, nil })
		network, list := newFrost(cl.network), registry.NewMemory()
		for i, name := range cl.names {
			in := at(name)
			in.Group = fmt.Sprint(i)
			entry, err := list.Register(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			defer entry.Close()
		}
		c := dial(t, "list://svc", client.WithTransport("mem", network), client.WithResolver("list", list))
		time.Sleep(time.Second)
		network.freeze("a")
		time.AfterFunc(3*time.Second, func() { network.thaw("a") })
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				err := c.Call(t.Context(), "Test.Do", "", nil, client.Route(tandem.Route{Group: "0"}),
					client.FailMode(client.Failover), client.Idempotent(), client.Timeout(10*time.Second))
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if cl.at("a") != 5 || cl.at("b") != 0 {
			t.Errorf("5 calls ran %d times at the suspect and %d times elsewhere", cl.at("a"), cl.at("b"))
		}
	})
}
