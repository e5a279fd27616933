package balance

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
)

// reporting returns nodes that report these rates and calls in flight.
func reporting(loads ...*tandem.Load) []*Node {
	nodes := weighted(make([]int, len(loads))...)
	for i, l := range loads {
		nodes[i].Instance.Load = l
	}
	return nodes
}

func TestLeastReported(t *testing.T) {
	now := time.Now()
	half := map[string]float64{"n0": 0.5, "n1": 0.5}
	for _, tc := range []struct {
		name  string
		nodes []*Node
		want  map[string]float64
	}{
		{"equal loads", reporting(&tandem.Load{At: now, Rate: 5, InFlight: 1}, &tandem.Load{At: now, Rate: 5, InFlight: 1}), half},
		{"three times the calls", reporting(&tandem.Load{At: now, Rate: 300, InFlight: 50}, &tandem.Load{At: now, Rate: 100, InFlight: 10}), map[string]float64{"n0": 0.25, "n1": 0.75}},
		{"only a rate", reporting(&tandem.Load{At: now, Rate: 300}, &tandem.Load{At: now, Rate: 100}), map[string]float64{"n0": 0.25, "n1": 0.75}},
		{"only calls, some queued", reporting(&tandem.Load{At: now, InFlight: 20, Queued: 30}, &tandem.Load{At: now, InFlight: 10}), map[string]float64{"n0": 0.25, "n1": 0.75}},
		{"no calls", reporting(&tandem.Load{At: now}, &tandem.Load{At: now}), half},
		{"no reports", reporting(nil, nil), half},
		{"one without a report is average", reporting(nil, &tandem.Load{At: now, Rate: 5}), half},
		{"one that is old is average", reporting(&tandem.Load{At: now.Add(-time.Hour), Rate: 1e6}, &tandem.Load{At: now, Rate: 5}), half},
		{"lies", reporting(&tandem.Load{At: now, Rate: math.NaN(), InFlight: math.MinInt}, &tandem.Load{At: now, Rate: math.Inf(-1), Queued: -1}), half},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fits(t, count(LeastReported().Build(tc.nodes), 50_000, all), tc.want)
		})
	}
	heavy := reporting(&tandem.Load{At: now, Rate: 300, InFlight: 3}, &tandem.Load{At: now, Rate: 100, InFlight: 1})
	heavy[0].Instance.Weight = 300 // it has the load that its weight allows
	got := count(LeastReported().Build(heavy), 50_000, all)
	fits(t, got, map[string]float64{"n0": 0.75, "n1": 0.25})
	idle := reporting(&tandem.Load{At: now}, &tandem.Load{At: now, Rate: math.Inf(1), InFlight: math.MaxInt})
	if n := count(LeastReported().Build(idle), 10_000, all)["n1"]; n < 50 || n > 1000 { // 57 runs: 246 with a standard deviation of 16: 12 of them
		t.Errorf("one that says that all calls are its own gets %d of 10,000", n)
	}
}

// stale is a policy whose pickers see the nodes' reports only every 30 s.
type stale struct {
	Policy
	report func(nodes []*Node, now time.Time)
}

type stalePicker struct{ now atomic.Pointer[Picker] }

func (p *stalePicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	return (*p.now.Load()).Pick(call, usable)
}

func (s stale) Build(nodes []*Node) Picker {
	p := new(stalePicker)
	again := func() {
		fresh := make([]*Node, len(nodes)) // nodes don't change: the list does
		for i, n := range nodes {
			fresh[i] = &Node{Instance: n.Instance, Stats: n.Stats}
		}
		s.report(fresh, time.Now())
		inner := s.Policy.Build(fresh)
		byFresh := Picker(mapped{inner, fresh, nodes})
		p.now.Store(&byFresh)
	}
	again()
	go func() {
		for range 20 {
			time.Sleep(30 * time.Second)
			again()
		}
	}()
	return p
}

// mapped returns the nodes of one list for those of another.
type mapped struct {
	Picker
	from, to []*Node
}

func (m mapped) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	n := m.Picker.Pick(call, usable)
	for i := range m.from {
		if m.from[i] == n {
			return m.to[i]
		}
	}
	return nil
}

// lowest is a bad LeastReported: it always takes the one of all that reported less.
func lowest() Policy {
	return least{"lowest", false, func(n *Node) float64 {
		return n.Instance.Load.Rate
	}}
}

// herding plays six minutes with reports that are up to 30 s old, and returns the calls of the
// busiest node over the mean, in the worst half minute.
func herding(t *testing.T, p Policy) (worst float64) {
	synctest.Test(t, func(t *testing.T) {
		nodes := weighted(make([]int, 20)...)
		last := make([]uint64, len(nodes))
		reports := 0
		policy := stale{p, func(fresh []*Node, now time.Time) {
			most, sum := 0.0, 0.0
			for i, n := range fresh {
				ended, _ := n.Stats.Calls()
				rate := float64(ended-last[i]) / 30
				last[i] = ended
				n.Instance.Load = &tandem.Load{At: now, Rate: rate, InFlight: int(n.Stats.InFlight())}
				most, sum = max(most, rate), sum+rate
			}
			if reports++; reports > 4 && reports < 12 { // after the third the start is forgotten
				worst = max(worst, most*float64(len(nodes))/sum)
			}
			if reports == 1 { // begins with a very uneven cluster
				for i, n := range fresh {
					n.Instance.Load.Rate = float64(i)
				}
			}
		}}
		c := &cluster{nodes, func(int, time.Duration) time.Duration { return 500*time.Millisecond + rand.N(time.Second) }, 800, nil}
		c.run(policy, 0, 6*time.Minute)
		time.Sleep(10 * time.Minute) // until no node reports any more
	})
	return worst
}

func TestLeastReportedDoesNotHerd(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and many picks: made without the race detector")
	}
	// A node has 1,200 calls in half a minute, with a standard deviation of 4.3 % (measured), as
	// what is reported changes what is picked. 140 such counts are checked: one of them reaches
	// 1,560, which is 7 of those, by chance with a probability of 4e-9.
	if worst := herding(t, LeastReported()); worst > 1.3 {
		t.Errorf("a node had %.2f times the mean", worst)
	} else {
		t.Logf("LeastReported: at most %.2f times the mean", worst)
	}
	if worst := herding(t, lowest()); worst < 3 {
		t.Errorf("the scenario is too easy: a policy that takes the lowest has %.2f times the mean", worst)
	} else {
		t.Logf("the lowest of all: %.2f times the mean", worst)
	}
}
