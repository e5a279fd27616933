package balance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tandem-rpc/tandem"
)

func named(from, to int) (list []tandem.Instance) {
	for i := from; i < to; i++ {
		list = append(list, tandem.Instance{ID: fmt.Sprintf("10.0.0.%03d:80", i)})
	}
	return list
}

// connections returns which instances each of 100 clients connects to.
func connections(policy func(client int) Policy, list []tandem.Instance) (of []map[string]bool) {
	for client := range 100 {
		ids := map[string]bool{}
		for _, in := range policy(client).Needs().Narrow(list) {
			ids[in.ID] = true
		}
		of = append(of, ids)
	}
	return of
}

func hashedSubset(client int) Policy { return Subset(20, fmt.Sprint("client-", client), P2C()) }
func evenSubset(client int) Policy   { return Aperture(client, 100, 20, P2C()) }

// spread returns the most and the mean number of clients of an instance.
func spread(of []map[string]bool, list []tandem.Instance) (most int, mean float64) {
	counts := map[string]int{}
	for _, ids := range of {
		for id := range ids {
			counts[id]++
		}
	}
	sum := 0
	for _, n := range counts {
		most, sum = max(most, n), sum+n
	}
	return most, float64(sum) / float64(len(list))
}

// 100 clients of 100 servers with 20 connections each: the aperture is even, the hash within
// what chance allows.
func TestSubsetsSpread(t *testing.T) {
	list := named(0, 100)
	most, mean := spread(connections(hashedSubset, list), list)
	t.Logf("rendezvous: mean %.1f, most %d, %.2f times the mean", mean, most, float64(most)/mean)
	// Binomial with 100 draws of 0.2: the most of 100 is below five sigma.
	if mean != 20 || float64(most) > 20+5*math.Sqrt(100*0.2*0.8) {
		t.Errorf("rendezvous: mean %v, most %d", mean, most)
	}
	most, mean = spread(connections(evenSubset, list), list)
	t.Logf("aperture: mean %.1f, most %d", mean, most)
	if mean != 20 || most != 20 {
		t.Errorf("aperture: mean %v, most %d", mean, most)
	}
}

// A change of one instance out of 100 changes as little as possible.
func TestSubsetsMoveLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and many picks: made without the race detector")
	}
	list := named(0, 100)
	for name, policy := range map[string]func(int) Policy{"rendezvous": hashedSubset, "aperture": evenSubset} {
		before := connections(policy, list)
		moved, most := 0, 0
		for gone := range list {
			after := connections(policy, slices.Delete(slices.Clone(list), gone, gone+1))
			for client, ids := range after {
				n := 0
				for id := range ids {
					if !before[client][id] {
						n++
					}
				}
				moved, most = moved+n, max(most, n)
			}
		}
		mean := float64(moved) / 100 / 100
		t.Logf("%s: a client makes %.2f new connections, %d at most", name, mean, most)
		// The hash: size/n. The aperture: two edges, and one for 99 not dividing 20 clients' breadth.
		if limit := map[string]float64{"rendezvous": 0.2, "aperture": 2}[name]; mean > limit+1e-9 || most > 3 {
			t.Errorf("%s: %.2f new connections a client, limit %.2f; %d at most", name, mean, limit, most)
		}
	}
}

// Every instance gets the same number of calls, also if the numbers can't be divided evenly,
// and by weight if weights differ.
func TestApertureIsEven(t *testing.T) {
	for _, tc := range []struct{ clients, servers, least int }{{7, 10, 3}, {30, 7, 2}, {3, 50, 12}, {1, 5, 2}, {10, 10, 100}} {
		for _, weight := range []func(i int) int{func(int) int { return 0 }, func(i int) int { return 50 + 50*(i%3) }} {
			list := named(0, tc.servers)
			for i := range list {
				list[i].Weight = weight(i)
			}
			calls, share, most := map[string]int{}, map[string]float64{}, 0
			for client := range tc.clients {
				nodes := make([]*Node, len(list))
				for i := range list {
					nodes[i] = &Node{Instance: list[i], Stats: new(Stats)}
				}
				share = shares(nodes, all)
				policy := Aperture(client, tc.clients, tc.least, Random())
				most = max(most, len(policy.Needs().Narrow(list)))
				for id, n := range count(policy.Build(nodes), 50_000/tc.clients, all) {
					calls[id] += n
				}
			}
			fits(t, calls, share)
			// A width of that many clients, at most one more than the least number, and an edge
			// on both sides.
			if limit := tc.least + (tc.servers+tc.clients-1)/tc.clients + 2; most > limit && weight(1) == 0 {
				t.Errorf("%+v: a client has %d instances, limit %d", tc, most, limit)
			}
		}
	}
}

// A client's subset does not depend on where, and in which order of the list, it is computed.
func TestSubsetIgnoresTheListsOrder(t *testing.T) {
	list := named(0, 50)
	turned := slices.Clone(list)
	slices.Reverse(turned)
	for _, policy := range []func(int) Policy{hashedSubset, evenSubset} {
		a, b := connections(policy, list), connections(policy, turned)
		for client := range a {
			for id := range a[client] {
				if !b[client][id] {
					t.Fatalf("client %d: %v and %v", client, a[client], b[client])
				}
			}
		}
	}
}

// Calls stay in the client's subset while an instance in it is usable.
func TestSubsetPicks(t *testing.T) {
	list := named(0, 30)
	nodes := make([]*Node, len(list))
	for i := range list {
		nodes[i] = &Node{Instance: list[i], Stats: new(Stats)}
	}
	for _, policy := range []Policy{Subset(5, "me", P2C()), Aperture(3, 10, 5, P2C())} {
		inside := map[string]bool{}
		for _, in := range policy.Needs().Narrow(list) {
			inside[in.ID] = true
		}
		p := policy.Build(nodes)
		for id := range count(p, 1000, all) {
			if !inside[id] {
				t.Errorf("%s: a call to %s, outside", policy.Name(), id)
			}
		}
		down := func(n *Node) bool { return !inside[n.Instance.ID] }
		if got := count(p, 1000, down); len(got) < 10 {
			t.Errorf("%s: with the subset down, calls go to %v", policy.Name(), got)
		}
	}
}

// Numbers out of range are adjusted.
func TestSubsetsOfInvalidSizes(t *testing.T) {
	list := named(0, 5)
	for _, policy := range []Policy{
		Subset(-1, "", P2C()), Subset(100, "", P2C()), Aperture(-7, 3, 1, P2C()), Aperture(9, 3, 0, P2C()),
		Aperture(0, 0, 0, P2C()), Aperture(math.MaxInt, math.MaxInt, math.MaxInt, P2C()), Aperture(math.MinInt, 10, 1, P2C()),
	} {
		if n := len(policy.Needs().Narrow(list)); n < 1 || n > 5 {
			t.Errorf("%#v: %d instances", policy, n)
		}
		if n := policy.Needs().Narrow(nil); len(n) != 0 {
			t.Errorf("%#v: %v of none", policy, n)
		}
	}
}
