package balance

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// RoundRobin returns the policy that takes the nodes in turn. Where weights
// differ, a node has as many turns as its weight, spread evenly over the round.
// A picker begins at a random place, so that clients that start together don't
// go round in step. The turn of a node that is not usable goes to a random one
// that is, rather than to its neighbour.
func RoundRobin() Policy { return roundRobin{} }

type roundRobin struct{}

func (roundRobin) Name() string { return "roundrobin" }

func (roundRobin) Build(nodes []*Node) Picker {
	p := &roundRobinPicker{nodes: nodes, turns: nodes}
	if !evenWeights(nodes) {
		p.turns = takeTurns(nodes)
	}
	p.next.Store(rand.Uint32())
	return p
}

// roundRobinPicker goes round and round the turns.
type roundRobinPicker struct {
	nodes []*Node
	turns []*Node // each node once for every turn it has
	_     [cacheLine]byte
	next  atomic.Uint32 // written by every pick, so apart from what is only read
}

func (p *roundRobinPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	if len(p.turns) == 0 {
		return nil
	}
	// Where the counter wraps, the order has a seam, once in 2^32 picks.
	if n := p.turns[p.next.Add(1)%uint32(len(p.turns))]; usable(n) { //nolint:gosec // turns are few
		return n
	}
	return anyUsable(p.nodes, usable)
}

// A round has up to 1024 turns, or 16 for each node if that is more, and one
// for each node at least; weights that need longer rounds are rounded.
const (
	maxRound = 1024
	maxTurns = 16
)

// takeTurns lays out a round of the nodes by weight: the turns of each are
// evenly apart, and in the order in which they are due. The first ones are due
// at different times, so that nodes of equal weight don't follow in a crowd.
func takeTurns(nodes []*Node) []*Node {
	type turn struct {
		due  float64
		node int
	}
	var round []turn
	for i, w := range turnsOf(nodes) {
		first := float64(i) / float64(len(nodes))
		for k := range w {
			round = append(round, turn{(float64(k) + first) / float64(w), i})
		}
	}
	slices.SortFunc(round, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.node, b.node))
	})
	turns := make([]*Node, len(round))
	for i, t := range round {
		turns[i] = nodes[t.node]
	}
	return turns
}

// turnsOf returns how many turns each node has: its weight in lowest terms,
// scaled down where that makes the round too long.
func turnsOf(nodes []*Node) []int {
	divisor, total := 0, 0
	for _, n := range nodes {
		divisor = gcd(n.Weight(), divisor)
		total += n.Weight()
	}
	if limit := max(maxRound, maxTurns*len(nodes)); total/divisor > limit {
		divisor = (total + limit - 1) / limit
	}
	turns := make([]int, len(nodes))
	for i, n := range nodes {
		turns[i] = max(1, (n.Weight()+divisor/2)/divisor)
	}
	return turns
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
