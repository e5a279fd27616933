package balance

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// policies are all policies, for tests of all of them. Those that wrap another have no effect
// of their own here.
func policies() []Policy {
	return []Policy{
		Random(), RoundRobin(), P2C(), RingHash(), Maglev(), JumpHash(), LeastInFlight(), ShortestLatency(), LeastReported(), LeastLoaded(),
		Route(RoundRobin()), Zone("", P2C()), Closest(berlin, Random()), Subset(1000, "me", P2C()), Aperture(0, 1, 12, P2C()), SlowStart(time.Hour, P2C()),
	}
}

// weighted returns a node for each weight, with IDs n0, n1, ….
func weighted(weights ...int) []*Node {
	nodes := make([]*Node, len(weights))
	for i, w := range weights {
		nodes[i] = &Node{Instance: tandem.Instance{ID: fmt.Sprintf("n%d", i), Weight: w}, Stats: new(Stats)}
	}
	return nodes
}

func all(*Node) bool { return true }

// count picks n times and returns how often each node was chosen.
func count(p Picker, n int, usable func(*Node) bool) map[string]int {
	counts := map[string]int{}
	for range n {
		if node := p.Pick(nil, usable); node != nil {
			counts[node.Instance.ID]++
		}
	}
	return counts
}

// fits checks that counts are a sample of shares: Pearson's chi-square, with one false alarm in
// about a billion.
func fits(t *testing.T, counts map[string]int, share map[string]float64) {
	t.Helper()
	total, sum := 0, 0.0
	for id, n := range counts {
		total += n
		if share[id] == 0 {
			t.Errorf("%s was chosen", id)
		}
	}
	for id, s := range share {
		want := s * float64(total)
		sum += (float64(counts[id]) - want) * (float64(counts[id]) - want) / want
	}
	free := float64(len(share) - 1)
	// Wilson and Hilferty's approximation of the quantile, at six sigma.
	limit := free * math.Pow(1-2/(9*free)+6*math.Sqrt(2/(9*free)), 3)
	if sum > limit {
		t.Errorf("chi-square %.1f, limit %.1f: %v for shares %v", sum, limit, counts, share)
	}
}

// shares returns each node's part of the weight.
func shares(nodes []*Node, usable func(*Node) bool) map[string]float64 {
	total := 0
	share := map[string]float64{}
	for _, n := range nodes {
		if usable(n) {
			total += n.Weight()
		}
	}
	for _, n := range nodes {
		if usable(n) {
			share[n.Instance.ID] = float64(n.Weight()) / float64(total)
		}
	}
	return share
}

func TestDistribution(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and many picks: made without the race detector")
	}
	for _, p := range policies() {
		for _, weights := range [][]int{
			{0},
			{0, 0, 0},
			{5, 5, 5, 5},
			{1, 2, 3, 4},
			{1, 0},
			{10_000, 1000, 1000},
			{3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3},
		} {
			t.Run(fmt.Sprint(p.Name(), weights), func(t *testing.T) {
				nodes := weighted(weights...)
				counts := count(p.Build(nodes), 100_000, all)
				if len(weights) == 1 {
					if counts["n0"] != 100_000 {
						t.Errorf("%v", counts)
					}
					return
				}
				fits(t, counts, shares(nodes, all))
			})
		}
	}
}

// The calls of unusable nodes go to all others, not to the next one.
func TestUnusableNodesAreSpread(t *testing.T) {
	for _, p := range policies() {
		for name, usable := range map[string]func(*Node) bool{
			"one of ten":    func(n *Node) bool { return n.Instance.ID != "n3" },
			"a row of four": func(n *Node) bool { return n.Instance.ID < "n2" || n.Instance.ID > "n5" },
		} {
			t.Run(p.Name()+" "+name, func(t *testing.T) {
				nodes := weighted(make([]int, 10)...)
				// Few enough picks for the small remaining bias not to show.
				fits(t, count(p.Build(nodes), 20_000, usable), shares(nodes, usable))
			})
		}
	}
}

// The last usable node is found, wherever it is; if there is none, Pick returns nil.
func TestPickFindsTheLast(t *testing.T) {
	for _, p := range policies() {
		for _, weights := range [][]int{make([]int, 100), append(make([]int, 99), 1)} {
			nodes := weighted(weights...)
			picker := p.Build(nodes)
			for _, want := range nodes {
				if got := picker.Pick(nil, func(n *Node) bool { return n == want }); got != want {
					t.Errorf("%s: %v instead of %s", p.Name(), got, want.Instance.ID)
				}
			}
			if got := picker.Pick(nil, func(*Node) bool { return false }); got != nil {
				t.Errorf("%s: %s, which is not usable", p.Name(), got.Instance.ID)
			}
		}
		if got := p.Build(nil).Pick(nil, all); got != nil {
			t.Errorf("%s: %v of no nodes", p.Name(), got)
		}
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	call := new(tandem.Call)
	for _, p := range policies() {
		for _, nodes := range [][]*Node{weighted(0, 0, 0), weighted(1, 2, 3)} {
			picker := p.Build(nodes)
			for name, usable := range map[string]func(*Node) bool{
				"all": all, "none": func(*Node) bool { return false },
			} {
				if n := testing.AllocsPerRun(100, func() { picker.Pick(call, usable) }); n != 0 {
					t.Errorf("%s, %s usable: %v allocations", p.Name(), name, n)
				}
			}
		}
	}
}

func TestPickConcurrently(t *testing.T) {
	for _, p := range policies() {
		for _, nodes := range [][]*Node{weighted(0, 0, 0), weighted(1, 2, 3)} {
			picker := p.Build(nodes)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 1000 {
						if picker.Pick(nil, all) == nil {
							t.Error("no node picked")
						}
					}
				})
			}
			wg.Wait()
		}
	}
}

// In a round every node has as many turns as its weight.
func TestRoundRobinIsExact(t *testing.T) {
	for _, tc := range []struct {
		weights []int
		round   int
	}{
		{[]int{0, 0, 0}, 3},
		{[]int{50, 0, 100}, 5},
		{[]int{1, 2, 3, 4}, 10},
		{[]int{600, 300, 100}, 10},
	} {
		nodes := weighted(tc.weights...)
		picker := RoundRobin().Build(nodes)
		for range 3 {
			counts := count(picker, tc.round, all)
			for id, share := range shares(nodes, all) {
				if want := int(math.Round(share * float64(tc.round))); counts[id] != want {
					t.Errorf("%v: %s has %d of %d turns, want %d", tc.weights, id, counts[id], tc.round, want)
				}
			}
		}
	}
}

// The turns of a heavy node are not in a row.
func TestRoundRobinIsSmooth(t *testing.T) {
	picker := RoundRobin().Build(weighted(5, 1, 1, 1, 1, 1))
	in, longest := 0, 0
	for range 100 {
		if picker.Pick(nil, all).Instance.ID != "n0" {
			in = 0
			continue
		}
		in++
		longest = max(longest, in)
	}
	if longest > 2 { // one at the end of a round, one at the beginning
		t.Errorf("%d turns in a row", longest)
	}
}

// No turn is taken twice, and concurrent picks skip few.
func TestTurnsAreTakenOnce(t *testing.T) {
	const goroutines, each = 4, 10_000
	var count turns
	taken := make([][]uint32, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range each {
				taken[g] = append(taken[g], count.next())
			}
		})
	}
	wg.Wait()
	seen := map[uint32]bool{}
	for _, turn := range slices.Concat(taken...) {
		if seen[turn] {
			t.Fatalf("turn %d was taken twice", turn)
		}
		seen[turn] = true
	}
	if given := count.given.Load(); given > goroutines*each*cursorTurns {
		t.Errorf("%d turns were given for %d", given, goroutines*each)
	}
}

// After a conflict with another processor a cursor takes many turns at once for a while, then
// one again.
func TestTurnsAfterConflict(t *testing.T) {
	var count turns
	c := &cursor{batchesLeft: 2}
	for i, want := range []uint32{cursorTurns, 2 * cursorTurns, 2*cursorTurns + 1} {
		count.take(c)
		if c.end != want || count.given.Load() != want {
			t.Errorf("take %d: the cursor ends at %d and %d are given, want %d", i, c.end, count.given.Load(), want)
		}
	}
}

func TestRoundRobinBeginsAnywhere(t *testing.T) {
	nodes := weighted(make([]int, 10)...)
	begins := map[*Node]bool{}
	for range 200 {
		begins[RoundRobin().Build(nodes).Pick(nil, all)] = true
	}
	if len(begins) < 8 { // three of ten are missed with a probability of 1e-29
		t.Errorf("200 pickers began at %d of 10 nodes", len(begins))
	}
}

// For all weights a round is bounded and every node has a turn.
func TestTurnsAreBounded(t *testing.T) {
	for _, weights := range [][]int{
		{10_000, 1},
		{9973, 9967, 1},
		append(make([]int, 999), 10_000, 1),
		{-5, 1 << 40},
	} {
		nodes := weighted(weights...)
		total := 0
		for i, n := range turnsOf(nodes) {
			total += n
			if n < 1 {
				t.Errorf("node %d of %v has %d turns", i, weights, n)
			}
		}
		if limit := max(maxRound, maxTurns*len(nodes)) + len(nodes); total > limit {
			t.Errorf("%d nodes: a round of %d, limit %d", len(nodes), total, limit)
		}
	}
}

func TestWeight(t *testing.T) {
	for weight, want := range map[int]int{0: 100, 1: 1, 10_000: 10_000, 10_001: 10_000, -1: 1} {
		if got := weighted(weight)[0].Weight(); got != want {
			t.Errorf("weight %d counts as %d, want %d", weight, got, want)
		}
	}
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Stats
		call := func(took time.Duration, failed bool) {
			s.Begin()
			began := Now()
			time.Sleep(took)
			s.Done(began, failed)
		}
		s.Begin()
		call(80*time.Millisecond, false)
		if s.InFlight() != 1 {
			t.Errorf("%d in flight", s.InFlight())
		}
		if s.Latency() != 80*time.Millisecond || s.Peak() != 80*time.Millisecond {
			t.Errorf("first latency %v, peak %v", s.Latency(), s.Peak())
		}
		call(time.Millisecond, true) // a quick failure changes neither
		if s.Latency() != 80*time.Millisecond || s.Peak() != 80*time.Millisecond {
			t.Errorf("after a failure: latency %v, peak %v", s.Latency(), s.Peak())
		}
		call(160*time.Millisecond, false)
		if s.Latency() != 90*time.Millisecond || s.Peak() != 160*time.Millisecond {
			t.Errorf("latency %v, peak %v", s.Latency(), s.Peak())
		}
		s.Done(0, true) // not measured
		if ended, failed := s.Calls(); ended != 4 || failed != 2 || s.InFlight() != 0 {
			t.Errorf("%d ended, %d failed, %d in flight", ended, failed, s.InFlight())
		}
	})
}

// sleepCalls makes n calls one after the other, each of that duration.
func sleepCalls(s *Stats, n int, took time.Duration, failed bool) {
	for range n {
		s.Begin()
		began := Now()
		time.Sleep(took)
		s.Done(began, failed)
	}
}

// The peak rises to a slow call's latency at once. It falls with a time constant of 2.5 s
// towards quicker calls, and towards the average without any; the average, and a peak without
// one, fade with one of ten seconds.
func TestPeak(t *testing.T) {
	idle := func(d time.Duration) func(*Stats) {
		return func(s *Stats) {
			for range 100 {
				time.Sleep(d / 100)
				s.age(Now())
			}
		}
	}
	for name, c := range map[string]struct {
		before, pass func(*Stats)
		want         float64
	}{
		"quicker calls": {nil, func(s *Stats) { sleepCalls(s, 250, 10*time.Millisecond, false) }, 0.374}, // 1/e, and of 10 ms the rest
		"no calls":      {nil, idle(memoryTime), 0.368},
		// The average stays at 10 ms, as the slow call has failed.
		"no calls after quick ones": {func(s *Stats) { sleepCalls(s, 1, 10*time.Millisecond, false) }, idle(peakTime), 0.291},
	} {
		synctest.Test(t, func(t *testing.T) {
			var s Stats
			if c.before != nil {
				c.before(&s)
			}
			sleepCalls(&s, 1, time.Second, true) // a slow failure counts
			if s.Peak() != time.Second {
				t.Errorf("%s: peak %v", name, s.Peak())
			}
			c.pass(&s)
			if p := s.Peak().Seconds(); math.Abs(p-c.want) > 0.005 {
				t.Errorf("%s: %.3f of the peak, want %.3f", name, p, c.want)
			}
		})
	}
}

// The peak of a new instance is the latency of the quickest of its first calls.
func TestPeakOfANewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable(P2C())
		table.Update(instances("a"))
		table.Update(instances("a", "b"))
		a, b := table.Nodes()[0].Stats, table.Nodes()[1].Stats
		for _, s := range []*Stats{a, b} {
			sleepCalls(s, 1, time.Microsecond, true) // does not count
			sleepCalls(s, 2, 50*time.Millisecond, false)
			sleepCalls(s, 1, 10*time.Millisecond, false)
			sleepCalls(s, 4, 20*time.Millisecond, false)
		}
		if a.Peak() < 40*time.Millisecond || b.Peak() != 10*time.Millisecond {
			t.Errorf("known: %v, new: %v", a.Peak(), b.Peak())
		}
		sleepCalls(b, 1, 20*time.Millisecond, false)
		if b.Peak() != 20*time.Millisecond {
			t.Errorf("after eight calls: %v", b.Peak())
		}
		table.Update(instances("a", "b", "c"))
		c := table.Nodes()[2].Stats
		sleepCalls(c, 1, 50*time.Millisecond, false)
		time.Sleep(newcomerTime)
		sleepCalls(c, 1, 100*time.Millisecond, false)
		if c.Peak() != 100*time.Millisecond {
			t.Errorf("after five seconds: %v", c.Peak())
		}
	})
}
