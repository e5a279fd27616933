package balance

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
)

// listedFor returns nodes that have been listed for that long; 0 is for ever.
func listedFor(times ...time.Duration) []*Node {
	nodes := weighted(make([]int, len(times))...)
	for i, d := range times {
		if d != 0 {
			nodes[i].Stats.listed.Store(int64(Now() - d))
		}
	}
	return nodes
}

func TestSlowStartShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			since      time.Duration
			aggression float64
			want       float64
		}{
			{0, 1, 1}, // never listed
			{time.Nanosecond, 1, 0.1},
			{3 * time.Second, 1, 0.1},
			{15 * time.Second, 1, 0.5},
			{30 * time.Second, 1, 1},
			{time.Hour, 1, 1},
			{15 * time.Second, 2, math.Sqrt(0.5)},
			{15 * time.Second, 0.5, 0.25},
			{time.Nanosecond, 2, 0.1},
			{-time.Second, 2, 0.1}, // in the future
			{15 * time.Second, math.NaN(), 0.5},
			{15 * time.Second, -1, 0.5},
		} {
			n := listedFor(tc.since)[0]
			p := SlowStartCurve(30*time.Second, tc.aggression, Random()).(slowStart)
			if got := p.share(n, Now()); math.Abs(got-tc.want) > 1e-6 {
				t.Errorf("%+v: share %v", tc, got)
			}
		}
	})
}

// An instance gets the share of calls for its age, under every policy.
func TestSlowStart(t *testing.T) {
	for _, next := range []Policy{Random(), RoundRobin(), P2C(), LeastLoaded()} {
		synctest.Test(t, func(t *testing.T) {
			nodes := listedFor(0, 0, 0, 0, 0, 0, 0, 0, 0, time.Nanosecond)
			p := SlowStart(30*time.Second, next).Build(nodes)
			for _, at := range []time.Duration{0, 15 * time.Second, 30 * time.Second, time.Hour} {
				time.Sleep(at - (Now() - nodes[9].Stats.Listed()))
				want := min(1, max(0.1, at.Seconds()/30))
				// A call that the new one does not get is not offered to it again: it gets its
				// share of a tenth. Round robin offers it one call in each round, and a round has
				// nine calls for the others.
				own := want / 10
				if next.Name() == RoundRobin().Name() {
					own = want / (9 + want)
				}
				share := map[string]float64{"n9": own}
				for i := range 9 {
					share[fmt.Sprint("n", i)] = (1 - own) / 9
				}
				fits(t, count(p, 50_000, all), share)
			}
		})
	}
}

// If all instances are new, or only new ones are usable, all calls get one.
func TestSlowStartNeverStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, nodes := range [][]*Node{
			listedFor(1, 1, 1, 1),
			listedFor(1),
			listedFor(0, 1, 1, 0),
		} {
			p := SlowStart(30*time.Second, RoundRobin()).Build(nodes)
			usable := func(n *Node) bool { return n.Stats.Listed() != 0 }
			got := count(p, 4000, usable)
			for i, n := range nodes {
				if usable(n) && got[n.Instance.ID] < 4000/len(nodes)/2 {
					t.Errorf("%d of 4000 calls for node %d: %v", got[n.Instance.ID], i, got)
				}
			}
			if sum := got["n0"] + got["n1"] + got["n2"] + got["n3"]; sum != 4000 {
				t.Errorf("%d of 4000 calls found an instance", sum)
			}
		}
		// Nine of ten are new: the old one gets about half of the calls, as its share is 10/19.
		got := count(SlowStart(30*time.Second, Random()).Build(listedFor(0, 1, 1, 1, 1, 1, 1, 1, 1, 1)), 10_000, all)
		// binomial, 10,000 picks: 4,950 with a standard deviation of 50, 19 of them.
		if n := got["n0"]; n < 4000 || n > 6500 {
			t.Errorf("the old one has %d of 10,000 calls", n)
		}
	})
}

// TestListed checks from when on a table counts an instance as new.
func TestListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable(Random())
		age := func(id string) time.Duration { return Now() - stats(table)[id].Listed() }
		first := instances("old", "fresh", "future", "silent")
		first[0].Started, first[1].Started, first[2].Started = time.Now().Add(-time.Hour), time.Now().Add(-time.Second), time.Now().Add(time.Hour)
		table.Update(nil)
		table.Update(first)
		for id, want := range map[string]time.Duration{"old": time.Hour, "fresh": time.Second, "future": 0} {
			if got := age(id); got != want {
				t.Errorf("%s is listed for %v, want %v", id, got, want)
			}
		}
		if got := stats(table)["silent"].Listed(); got != 0 {
			t.Errorf("one that does not say when it was started: %v", got)
		}
		time.Sleep(10 * time.Second)
		table.Update(append(first, instances("late")...))
		if age("late") != 0 || age("fresh") != 11*time.Second {
			t.Errorf("late %v, fresh %v", age("late"), age("fresh"))
		}
		again := append([]tandem.Instance(nil), first...)
		again[0].Incarnation = "second"
		again[1].Started = time.Now()
		table.Update(again) // late has left
		if age("old") != 0 || age("fresh") != 0 {
			t.Errorf("started again: %v and %v", age("old"), age("fresh"))
		}
		time.Sleep(longAbsence - time.Second)
		table.Update(append(again, instances("late")...))
		if age("late") != longAbsence-time.Second {
			t.Errorf("late was away for a moment: %v", age("late"))
		}
		table.Update(again)
		time.Sleep(longAbsence + time.Second)
		table.Update(append(again, instances("late")...))
		if age("late") != 0 {
			t.Errorf("late was away for long: %v", age("late"))
		}
	})
}

// A new instance of a busy cluster, whose calls are quick so that P2C prefers it, gets no more
// than its share.
func TestSlowStartHoldsBackP2C(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{listedFor(0, 0, 0, 0, 0, 0, 0, 0, 0, 1), func(int, time.Duration) time.Duration {
			return jitter(10 * time.Millisecond)
		}, 20, nil}
		calls := c.run(SlowStart(30*time.Second, P2C()), 0, 5*time.Second)
		// 57 runs: 0.210, with a standard deviation of 0.014: 6.5 of them, 4e-11.
		if share := 10 * float64(calls[9]) / float64(total(calls)); share > 0.3 || share < 0.05 {
			t.Errorf("the new one got %.2f of an equal share in its first 5 s", share)
		}
	})
}

// Policies that prefer a new instance to all others, because it has no calls in flight or is
// not known, still give it no more than its share of the calls.
func TestSlowStartHoldsBackTheBest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, next := range []Policy{LeastInFlight(), ShortestLatency()} {
			for _, newcomers := range []int{1, 2} {
				nodes := listedFor(0, 0, 0, 0, 0, 0, 0, 0, 1, 1)
				for i, n := range nodes[:10-newcomers] {
					n.Stats.listed.Store(0)
					n.Stats.latency.Store(int64(time.Duration(10+i) * time.Millisecond))
					for range 5 {
						n.Stats.Begin()
					}
				}
				got := count(SlowStart(30*time.Second, next).Build(nodes), 10_000, all)
				for _, n := range nodes[10-newcomers:] {
					// binomial, 10,000 picks: 1,000 with a standard deviation of 30, 16 of them.
					if got := got[n.Instance.ID]; got < 500 || got > 1500 {
						t.Errorf("%s: one of %d that are new got %d of 10,000 calls, want a tenth", next.Name(), newcomers, got)
					}
				}
			}
		}
	})
}

// A policy that stays with an instance also stays with a new one.
func TestSlowStartLeavesStickyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := listedFor(0, 0, 0)
		for _, n := range nodes {
			n.Stats.listed.Store(int64(Now()))
		}
		if got := count(SlowStart(30*time.Second, Sticky(P2C())).Build(nodes), 1000, all); len(got) != 1 {
			t.Errorf("calls without a key are at %v, want one", got)
		}
	})
}
