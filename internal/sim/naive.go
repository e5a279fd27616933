package sim

import (
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// naive is a bad policy that other frameworks have, for comparison. The simulator has no other
// policies of its own; a test checks that. It takes the best of all nodes, the first of equals.
// One value serves all clients: it knows nodes by their Stats, of which each client has its own.
type naive struct {
	name    string
	cost    func(*balance.Node) float64
	answers map[*balance.Stats]float64 // moving average of the seconds until a response, good or bad
}

// leastLatency takes the node that has answered soonest, with errors too, and an unknown node
// before all others.
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

// observer is implemented by a policy that is told how long every attempt took.
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

// Needs returns the zero Needs.
func (p *naive) Needs() balance.Needs { return balance.Needs{} }

// Build returns a picker over the nodes.
func (p *naive) Build(nodes []*balance.Node) balance.Picker { return naivePicker{nodes, p.cost} }

// naivePicker takes the node with the lowest cost.
type naivePicker struct {
	nodes []*balance.Node
	cost  func(*balance.Node) float64
}

// Pick returns the usable node with the lowest cost, nil if there is none.
func (p naivePicker) Pick(_ *tandem.Call, usable func(*balance.Node) bool) (best *balance.Node) {
	lowest := 0.0
	for _, n := range p.nodes {
		if cost := p.cost(n); (best == nil || cost < lowest) && usable(n) {
			best, lowest = n, cost
		}
	}
	return best
}
