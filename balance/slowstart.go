package balance

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// SlowStart returns the policy that gives a new instance less than its usual share of the
// calls: a tenth at first, all after the window, and in between a share that grows with time.
// Until its caches are filled and its code is compiled, a server is slower than later. 30 s are
// a good window for most.
//
// An instance is new since [Stats.Listed]: it was not there before, was started again, or was
// away for a minute. When a client begins, instances that were started long ago, or do not
// report when, are not new.
func SlowStart(window time.Duration, next Policy) Policy {
	return SlowStartCurve(window, 1, next)
}

// SlowStartCurve is [SlowStart] with another shape. The share of a new instance is
//
//	max(0.1, (time / window) ^ (1 / aggression))
//
// which is Envoy's formula with its default of a tenth: aggressions above 1 give it more at
// first, those below 1 less. What next picks is taken with this probability, else next picks
// again, at most eight times in all; a refused instance that is picked again is excluded, unless
// next narrows the choice or stays with an instance. If all are new, the oldest of those that
// were picked gets the call. Policies that choose by a call's key are exempt: the instance of a
// key gets all of its calls.
func SlowStartCurve(window time.Duration, aggression float64, next Policy) Policy {
	if !(aggression > 0) { // nor NaN
		aggression = 1
	}
	return slowStart{wrapper{next}, window, aggression}
}

// leastShare is the share of an instance at first.
const leastShare = 0.1

type slowStart struct {
	wrapper

	window     time.Duration
	aggression float64
}

func (p slowStart) Name() string { return p.named("slow_start") }

func (p slowStart) Needs() Needs {
	n := p.next.Needs()
	n.Prefers = true
	return n
}

func (p slowStart) Build(nodes []*Node) Picker {
	prefers := p.next.Needs().Prefers // excluding a new node could make it pick one that is not well
	picker := &slowStartPicker{branch: newBranch(p.next, nodes), policy: p, insists: !prefers}
	for i, n := range nodes {
		if listed := n.Stats.Listed(); listed != 0 && (i == 0 || listed+p.window > picker.until) {
			picker.until = listed + p.window
		}
	}
	picker.over.Store(worldOf(nodes).now() >= picker.until)
	return picker
}

type slowStartPicker struct {
	branch

	policy  slowStart
	insists bool          // a next that prefers a new node to all others is made to pick another
	until   time.Duration // when the last new node stops being new
	over    atomic.Bool   // that time has come, so the clock need not be read
}

func (p *slowStartPicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	if p.over.Load() {
		return p.picker.Pick(call, usable)
	}
	now := worldOf(p.nodes).now()
	if now >= p.until {
		p.over.Store(true)
		return p.picker.Pick(call, usable)
	}
	keyless := call == nil || call.HashKey == "" // the node of a key is fixed
	return thin(p.picker, call, usable, p.insists && keyless, func(n *Node) float64 { return p.policy.share(n, now) })
}

// share returns which part of its usual calls a node gets.
func (p slowStart) share(n *Node, now time.Duration) float64 {
	listed := n.Stats.Listed()
	since := now - listed
	if listed == 0 || since >= p.window {
		return 1
	}
	if p.aggression == 1 {
		return max(leastShare, float64(since)/float64(p.window))
	}
	return max(leastShare, math.Pow(max(0, float64(since))/float64(p.window), 1/p.aggression))
}

// Explain's scores are shares.
func (p *slowStartPicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	s := e.narrow("slow_start", p.nodes, func(*Node) string { return "" })
	s.Scores = map[string]float64{}
	now := worldOf(p.nodes).now()
	for _, n := range p.nodes {
		s.Scores[n.Instance.ID] = p.policy.share(n, now)
	}
	p.branch.explain(call, usable, e)
}
