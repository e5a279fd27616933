package balance

import (
	"math/rand/v2"
	"time"

	"github.com/tandem-rpc/tandem"
)

// P2C returns the policy that draws two instances, evenly or by weight, and
// takes the one with the lower load: the power of two choices (M. Mitzenmacher,
// "The Power of Two Choices in Randomized Load Balancing", 2001). Two are enough
// to avoid the slow, and so few that not everybody runs to the same best one.
//
// The load is [Stats.Peak], the latency that calls have to expect, times one
// more than the calls in flight, which count less where the weight is higher.
// This is Finagle's "peak EWMA" balancer. An instance that is not known yet gets
// one call at a time until it answers the first.
func P2C() Policy { return p2c{} }

type p2c struct{}

func (p2c) Name() string      { return "p2c" }
func (p2c) UsesLatency() bool { return true }

func (p2c) Build(nodes []*Node) Picker {
	p := &p2cPicker{nodes: nodes}
	if !evenWeights(nodes) {
		p.byWeight = newWeightedPicker(nodes)
		p.mean = meanWeight(nodes)
	}
	return p
}

func meanWeight(nodes []*Node) float64 {
	total := 0
	for _, n := range nodes {
		total += n.Weight()
	}
	return float64(total) / float64(len(nodes))
}

type p2cPicker struct {
	nodes    []*Node
	byWeight *weightedPicker // nil for even weights
	mean     float64         // of the weights
}

func (p *p2cPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	if len(p.nodes) < 2 {
		return anyUsable(p.nodes, usable)
	}
	random := rand.Uint64()
	a, b := p.pair(random)
	switch first, second := usable(a), usable(b); {
	case !first && !second:
		return anyUsable(p.nodes, usable)
	case !second:
		return a
	case !first:
		return b
	}
	if random%agePicks == 0 {
		now := Now()
		a.Stats.age(now)
		b.Stats.age(now)
	}
	if p.load(b) < p.load(a) {
		return b
	}
	return a
}

// agePicks is how rarely a pick looks at the clock. What is known of a node ages
// in seconds, and one that is drawn less often than that can wait.
const agePicks = 16

// pair draws two nodes, different ones unless the weights are uneven.
func (p *p2cPicker) pair(random uint64) (a, b *Node) {
	if w := p.byWeight; w != nil {
		return p.nodes[w.draw(random)], p.nodes[w.draw(mix(random))]
	}
	n := uint64(len(p.nodes))
	i, j := random>>32*n>>32, random&(1<<32-1)*(n-1)>>32
	if j >= i {
		j++
	}
	return p.nodes[i], p.nodes[j]
}

// unknownLatency is what a call to an instance has to expect that has one in
// flight and has not answered any.
const unknownLatency = float64(time.Second)

func (p *p2cPicker) load(n *Node) float64 {
	peak, calls := n.Stats.peak(), float64(n.Stats.InFlight())
	if peak == 0 && calls > 0 {
		peak = unknownLatency
	}
	if p.byWeight != nil && calls > 0 {
		calls *= p.mean / float64(n.Weight())
	}
	return peak * (1 + calls)
}
