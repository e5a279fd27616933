package sim

import (
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// naive is a policy that others have and that this package is a warning of. It is
// the only kind of policy that the simulator has of its own; a test holds that. It
// takes the best of all nodes, the first of equals; what it knows of each is
// shared by the pickers of all clients, which have Stats of their own.
type naive struct {
	name    string
	cost    func(*balance.Node) float64
	answers map[*balance.Stats]float64 // moving average of the seconds until an answer, good or bad
}

// leastLatency takes the node that has answered soonest, errors being answers
// too, and one that is not known yet before all others.
func leastLatency() *naive {
	p := &naive{name: "naive least latency", answers: map[*balance.Stats]float64{}}
	p.cost = func(n *balance.Node) float64 { return p.answers[n.Stats] }
	return p
}

// leastReported takes the node whose last report to the registry was the lowest.
func leastReported() *naive {
	return &naive{name: "naive least reported", cost: func(n *balance.Node) float64 {
		if n.Instance.Load == nil {
			return 0
		}
		return n.Instance.Load.Rate
	}}
}

// observer is a policy that wants to know how long every attempt took.
type observer interface {
	observe(n *balance.Node, took time.Duration)
}

func (p *naive) observe(n *balance.Node, took time.Duration) {
	if p.answers == nil {
		return
	}
	old, known := p.answers[n.Stats]
	if !known {
		old = took.Seconds()
	}
	p.answers[n.Stats] = old + (took.Seconds()-old)/8
}

// Name returns the policy's name.
func (p *naive) Name() string { return p.name }

// Needs says that it looks at nothing that a client or table provides.
func (p *naive) Needs() balance.Needs { return balance.Needs{} }

// Build returns a picker over the nodes.
func (p *naive) Build(nodes []*balance.Node) balance.Picker { return naivePicker{nodes, p.cost} }

// naivePicker takes the node of the lowest cost.
type naivePicker struct {
	nodes []*balance.Node
	cost  func(*balance.Node) float64
}

// Pick returns the usable node of the lowest cost, nil when there is none.
func (p naivePicker) Pick(_ *tandem.Call, usable func(*balance.Node) bool) (best *balance.Node) {
	lowest := 0.0
	for _, n := range p.nodes {
		if cost := p.cost(n); (best == nil || cost < lowest) && usable(n) {
			best, lowest = n, cost
		}
	}
	return best
}
