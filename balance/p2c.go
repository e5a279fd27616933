package balance

import "github.com/tandem-rpc/tandem"

// P2C returns the policy that draws two instances, evenly or by weight, and takes the one with
// the lower load: the power of two choices (M. Mitzenmacher, "The Power of Two Choices in
// Randomized Load Balancing", 2001). Two are enough to avoid slow instances, and few enough
// that clients do not all choose the same best one.
//
// The load is [Stats.Peak], the latency that calls must expect, times one more than the calls
// in flight, which count less where the weight is higher. This is Finagle's "peak EWMA"
// balancer. If both have as many calls in flight, as under low load, the odds are one over the
// cube of the latency: a slightly slower instance gets slightly fewer calls, not none, and one
// that has become quick again is noticed. An instance that has not answered yet, or is new to
// the list and has not answered eight calls, counts as quick as the other one. An instance
// whose last call was refused, or failed at once, has no calls in flight for that reason only:
// until it serves a call, its load counts for no less than the other's.
func P2C() Policy { return p2c{} }

type p2c struct{}

func (p2c) Name() string { return "p2c" }
func (p2c) Needs() Needs { return Needs{Latency: true} }

func (p2c) Build(nodes []*Node) Picker {
	return &p2cPicker{newPairs(nodes)}
}

type p2cPicker struct{ pairs }

func (p *p2cPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	if len(p.nodes) < 2 {
		return anyUsable(p.nodes, usable)
	}
	random := processRandom()
	if p.world != nil {
		random = p.world.Random()
	}
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
		now := p.world.now()
		a.Stats.age(now)
		b.Stats.age(now)
	}
	if p.prefers(b, a, mix(^random)) {
		return b
	}
	return a
}

// agePicks is the number of picks for each that reads the clock, on average. Latencies fade in
// seconds, so that is often enough.
const agePicks = 16

// prefers reports whether the call goes to a node rather than to the other.
func (p *p2cPicker) prefers(n, other *Node, random uint64) bool {
	peak, otherPeak := n.Stats.signedPeak(), other.Stats.signedPeak()
	calls, otherCalls := p.calls(n), p.calls(other)
	if peak <= 0 || otherPeak <= 0 || n.Stats.hardlyKnown() || other.Stats.hardlyKnown() {
		peak, otherPeak = p.presumed(n, other)
		switch refusing := n.Stats.refusing(); {
		case refusing == other.Stats.refusing():
		case refusing: // its load is at least that of the other
			peak, calls = max(peak, otherPeak), max(calls, otherCalls)
		default:
			otherPeak, otherCalls = max(peak, otherPeak), max(calls, otherCalls)
		}
	}
	if calls != otherCalls {
		return peak*(1+calls) < otherPeak*(1+otherCalls)
	}
	odds, otherOdds := otherPeak*otherPeak*otherPeak, peak*peak*peak
	return float64(random>>11)*(odds+otherOdds) < odds*(1<<53)
}

// presumed returns the expected latencies of two nodes of which at least one is hardly known:
// that one counts as quick as the other.
func (p *p2cPicker) presumed(a, b *Node) (ofA, ofB float64) {
	ofA, ofB = p.known(a), p.known(b)
	switch {
	case ofA == 0 && ofB == 0:
		return 1, 1
	case ofA == 0:
		return ofB, ofB
	case ofB == 0:
		return ofA, ofA
	}
	return ofA, ofB
}

// known returns the expected latency of a node, 0 if it is not known. Reading the clock costs
// more than the rest of a pick, so that comes last.
func (p *p2cPicker) known(n *Node) float64 {
	peak := n.Stats.peak()
	if peak != 0 && n.Stats.ended.Load() < newcomerCalls && n.Stats.isNewcomer(p.world.now()) {
		return 0
	}
	return peak
}

// calls returns the calls in flight to a node, as they count for its weight.
func (p *p2cPicker) calls(n *Node) float64 { return p.perWeight(float64(n.Stats.InFlight()), n) }

// Explain's scores are loads, in ns: of two drawn instances the one with the lower load wins,
// or is likelier to if they have as many calls in flight. The score is 0 for an instance that
// is not known; for one that refuses calls it does not include the other's load.
func (p *p2cPicker) Explain(_ *tandem.Call, usable func(*Node) bool, e *Explanation) {
	e.choice(p2c{}.Name(), p.nodes, usable, func(n *Node) float64 { return p.known(n) * (1 + p.calls(n)) })
}
