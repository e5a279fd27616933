package balance

import "github.com/tandem-rpc/tandem"

// LeastInFlight returns the policy that takes the instance with the fewest calls of this client
// in flight for its weight; among equals it draws one. An instance whose last call failed or
// was refused gets at most its even share until it serves one. A pick looks at all instances:
// with hundreds of them [P2C] is quicker, and with many clients it spreads calls better, as
// they do not all choose the same best instance.
func LeastInFlight() Policy {
	return least{"least_in_flight", false, func(n *Node) float64 {
		return float64(n.Stats.InFlight()) / float64(n.Weight())
	}}
}

// ShortestLatency returns the policy that takes the instance with the earliest expected
// response: the one with the lowest product of [Stats.Latency] and one more than its calls in
// flight. An instance that is not known yet gets one call at a time until it answers the first;
// if that fails, or is refused, it gets a call now and then. An instance whose last call was
// refused, or failed at once, gets at most its even share until it serves one. A pick looks at
// all instances. Dubbo's "shortest response" is this with a window of 30 s, but sends all calls
// to a new instance.
func ShortestLatency() Policy {
	return least{"shortest_latency", true, func(n *Node) float64 {
		latency, calls := n.Stats.Latency(), n.Stats.InFlight()
		if latency <= faded && (calls > 0 || n.Stats.silent()) {
			latency = failedLatency
		}
		return float64(latency) * float64(1+calls)
	}}
}

// least takes the node with the lowest cost.
type least struct {
	name  string
	timed bool
	cost  func(*Node) float64
}

func (p least) Name() string               { return p.name }
func (p least) Needs() Needs               { return Needs{Latency: p.timed} }
func (p least) Build(nodes []*Node) Picker { return leastPicker{nodes, p} }

type leastPicker struct {
	nodes []*Node
	least
}

func (p leastPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	if len(p.nodes) == 0 {
		return nil
	}
	random := worldOf(p.nodes).random()
	turn := p.nodes[random>>32*uint64(len(p.nodes))>>32]
	if p.timed && random%agePicks == 0 {
		turn.Stats.age(turn.world.now())
		if turn.Stats.silent() && turn.Stats.InFlight() == 0 && usable(turn) {
			return turn // its failedLatency does not fade
		}
	}
	best, well := p.cheapest(usable, turn, random)
	if !well {
		best, _ = p.cheapest(usable, nil, random)
	}
	return best
}

// cheapest returns the node with the lowest cost among those that do not refuse calls and turn,
// and whether there is one that does not refuse. A node that refuses calls has none in flight
// for that reason only: another one is taken only if there is no other.
func (p leastPicker) cheapest(usable func(*Node) bool, turn *Node, random uint64) (best *Node, well bool) {
	lowest, weight := 0.0, uint64(0)
	for _, n := range p.nodes {
		if !usable(n) {
			continue
		}
		cost := p.cost(n)
		if !n.Stats.refusing() {
			well = true
		} else if n != turn {
			cost = (1 + cost) * lastResort
		}
		switch {
		case best == nil || cost < lowest:
			best, lowest, weight = n, cost, uint64(n.Weight()) //nolint:gosec // positive
		case cost == lowest: // each of the equals with a chance in proportion to its weight
			weight += uint64(n.Weight())                                      //nolint:gosec // as above
			if random = mix(random + 1); random%weight < uint64(n.Weight()) { //nolint:gosec // as above
				best = n
			}
		}
	}
	return best, well
}

// lastResort makes the cost of an instance that refuses higher than that of any that does not.
const lastResort = 1e30

// Explain's scores are costs: the lowest one wins.
func (p leastPicker) Explain(_ *tandem.Call, usable func(*Node) bool, e *Explanation) {
	e.choice(p.name, p.nodes, usable, p.cost)
}
