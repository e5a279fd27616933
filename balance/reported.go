package balance

import (
	"time"

	"github.com/tandem-rpc/tandem"
)

// LeastReported returns the policy that prefers the instances with the least load, as they report
// it to the registry in [tandem.Load]: calls a second, and calls in flight or queued. It is for
// clients that make too few calls to measure the instances' load themselves.
//
// The load of an instance is the mean of two numbers: its calls a second, and its calls in flight
// plus ten. The calls are first divided by the instance's weight, and each number by its mean over
// all instances, so 1 is average. The ten reduce the effect of a few calls that happened to be in
// flight. Two instances, a and b, are drawn by weight, and a gets the call with the probability
//
//	load(b) / (load(a) + load(b))
//
// Reports are as old as their interval, a minute perhaps. A client that always took the lower
// of two loads would send twice the mean to an instance that was idle a minute ago, and so
// would all clients (M. Mitzenmacher, "How Useful Is Old Information?", 2000). With the
// probability above, loads that differ by 10 % make calls differ by 5 %, so an imbalance is halved with
// the next report. An instance without a report, or whose report is five minutes older than the
// newest, counts as average.
func LeastReported() Policy { return leastReported{} }

type leastReported struct{}

func (leastReported) Name() string { return "least_reported" }
func (leastReported) Needs() Needs { return Needs{Reports: true} }

const (
	expired     = 5 * time.Minute // how much older than the newest a report may be
	moreCalls   = 10              // added to the calls in flight
	leastReport = 0.05            // the least load of an instance that has reported
)

func (leastReported) Build(nodes []*Node) Picker {
	p := &reportedPicker{newPairs(nodes), make([]float64, len(nodes))}
	var newest time.Time
	for i, n := range nodes {
		p.load[i] = 1
		if l := n.Instance.Load; l != nil && l.At.After(newest) {
			newest = l.At
		}
	}
	var known []int
	for i, n := range nodes {
		if l := n.Instance.Load; l != nil && newest.Sub(l.At) <= expired {
			known = append(known, i)
		}
	}
	p.judge(known)
	return p
}

// judge computes the loads of the nodes that have reported.
func (p *reportedPicker) judge(known []int) {
	weight, anyCalls := 0.0, false
	for _, i := range known {
		weight += float64(p.nodes[i].Weight()) / float64(len(known))
	}
	rates, calls := make([]float64, len(known)), make([]float64, len(known))
	for k, i := range known {
		n := p.nodes[i]
		share := float64(n.Weight()) / weight
		inFlight := reportedCalls(n.Instance.Load)
		anyCalls = anyCalls || inFlight > 0
		rates[k], calls[k] = reportedRate(n.Instance.Load)/share, inFlight/share+moreCalls
	}
	meanRate, meanCalls := mean(rates), mean(calls)
	for k, i := range known {
		switch { // a number that is 0 for all instances says nothing
		case meanRate == 0:
			p.load[i] = calls[k] / meanCalls
		case !anyCalls:
			p.load[i] = rates[k] / meanRate
		default:
			p.load[i] = (rates[k]/meanRate + calls[k]/meanCalls) / 2
		}
		p.load[i] = max(leastReport, p.load[i])
	}
}

func mean(list []float64) (m float64) {
	for _, v := range list {
		m += v / float64(len(list))
	}
	return m
}

// reportedRate and reportedCalls return the values of a report within valid bounds.
func reportedRate(l *tandem.Load) float64 {
	if l.Rate > 0 { // false for NaN, too
		return min(l.Rate, 1e9)
	}
	return 0
}

func reportedCalls(l *tandem.Load) float64 {
	return float64(min(max(0, l.InFlight), 1e9) + min(max(0, l.Queued), 1e9))
}

type reportedPicker struct {
	pairs

	load []float64 // the load of each node
}

func (p *reportedPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	if len(p.nodes) < 2 {
		return anyUsable(p.nodes, usable)
	}
	random := processRandom()
	if p.world != nil {
		random = p.world.Random()
	}
	i, j := p.indices(random)
	a, b := p.nodes[i], p.nodes[j]
	switch first, second := usable(a), usable(b); {
	case !first && !second:
		return anyUsable(p.nodes, usable)
	case !second:
		return a
	case !first:
		return b
	}
	if x, y := p.load[i], p.load[j]; p.world.float()*(x+y) < y {
		return a
	}
	return b
}

// Explain's scores are loads: 1 is average.
func (p *reportedPicker) Explain(_ *tandem.Call, usable func(*Node) bool, e *Explanation) {
	load := make(map[*Node]float64, len(p.nodes))
	for i, n := range p.nodes {
		load[n] = p.load[i]
	}
	e.choice(leastReported{}.Name(), p.nodes, usable, func(n *Node) float64 { return load[n] })
}
