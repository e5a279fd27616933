package client_test

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
)

// mine is a custom policy that embeds another: a name and a Build.
type mine struct{ balance.Policy }

func (m mine) Name() string { return "mine(" + m.Policy.Name() + ")" }

func (m mine) Build(nodes []*balance.Node) balance.Picker { return minePicker{m.Policy.Build(nodes)} }

type minePicker struct{ balance.Picker }

// minor is a custom policy that wraps no other.
type minor struct{}

func (minor) Name() string                               { return "minor" }
func (minor) Needs() balance.Needs                       { return balance.Needs{Latency: true} }
func (minor) Build(nodes []*balance.Node) balance.Picker { return inOrder(nodes) }

// connections counts connections.
type connections struct{ made atomic.Int64 }

func (c *connections) Connected(conn net.Conn) (net.Conn, error) {
	c.made.Add(1)
	return conn, nil
}

// Custom policies compose with those of package balance, whichever is inside: the client does
// not connect to instances that one of them narrows away.
func TestOwnBalancersCompose(t *testing.T) {
	for _, policy := range []balance.Policy{
		mine{balance.Subset(2, "me", balance.P2C())},
		mine{mine{balance.Subset(2, "me", mine{balance.P2C()})}},
		balance.Subset(2, "me", mine{balance.P2C()}),
		balance.Subset(2, "me", minor{}),
		balance.Zone("", mine{balance.SlowStart(1, mine{balance.Subset(2, "me", minor{})})}),
		mine{balance.Route(mine{balance.Closest(tandem.Position{}, balance.Subset(2, "me", balance.Random()))})},
		mine{balance.Sticky(balance.Aperture(0, 3, 2, balance.RoundRobin()))},
	} {
		t.Run(policy.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made := &connections{}
				c := newCluster(t, 6, well).client(t, client.WithBalancer(policy), client.WithPlugins(made))
				at := map[string]bool{}
				for range 60 {
					said, err := do(t, c)
					if err != nil {
						t.Fatal(err)
					}
					at[said] = true
				}
				if n := made.made.Load(); n != 2 || len(at) > 2 {
					t.Errorf("%d connections, want 2; calls at %v", n, at)
				}
			})
		})
	}
}

// Latencies are measured, and loads kept, for a policy of package balance inside of a custom
// one.
func TestOwnBalancersPassOnNeeds(t *testing.T) {
	for _, inner := range []balance.Policy{balance.P2C(), balance.LeastLoaded(), balance.LeastReported(), balance.Route(balance.Random())} {
		for _, outer := range []balance.Policy{mine{inner}, balance.SlowStart(1, mine{inner})} {
			got, want := outer.Needs(), inner.Needs()
			if got.Latency != want.Latency || got.Load != want.Load || got.Reports != want.Reports || got.Route != want.Route || (got.Eligible == nil) != (want.Eligible == nil) {
				t.Errorf("%s: %+v, want %+v", outer.Name(), got, want)
			}
		}
	}
}

// A sticky policy inside of a custom one remembers for each client.
func TestOwnBalancersRememberPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := mine{balance.Sticky(balance.RoundRobin())}
		cl := newCluster(t, 4, well)
		used := map[string]bool{}
		for range 24 { // with one memory they would all use the same one
			said, err := do(t, cl.client(t, client.WithBalancer(policy)))
			if err != nil {
				t.Fatal(err)
			}
			used[said] = true
		}
		if len(used) < 2 {
			t.Errorf("24 clients stay with %v", used)
		}
	})
}
