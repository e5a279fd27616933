package balance

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// RoundRobin returns the policy that takes the nodes in turn. If weights differ, a node has as
// many turns as its weight, spread evenly over the round: smooth weighted round robin, computed
// when the list changes instead of at each pick. A round has up to 1024 turns, or 16 for each
// node, and at least one for each: with weights of 10,000 and 1 the lighter one has more than
// its share. A picker begins at a random place, so that clients that start together don't pick
// the same nodes at the same time. Processors that pick at the same moment take 64 turns each
// at once for a while, so the order is not exact then. The turn of a node that is not usable
// goes to a random usable one, rather than to its neighbour.
func RoundRobin() Policy { return roundRobin{} }

type roundRobin struct{}

func (roundRobin) Name() string { return "roundrobin" }
func (roundRobin) Needs() Needs { return Needs{} }

func (roundRobin) Build(nodes []*Node) Picker {
	p := &roundRobinPicker{nodes: nodes, round: nodes}
	if !evenWeights(nodes) {
		p.round = takeTurns(nodes)
	}
	p.turns.given.Store(uint32(worldOf(nodes).random())) //nolint:gosec // the low half is meant
	return p
}

// roundRobinPicker repeats its round.
type roundRobinPicker struct {
	nodes []*Node
	round []*Node // each node once for every turn it has
	turns turns
}

func (p *roundRobinPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	if len(p.round) == 0 {
		return nil
	}
	// When the count wraps, once in 2^32 picks, the order is broken.
	if n := p.round[p.turns.next()%uint32(len(p.round))]; usable(n) { //nolint:gosec // turns are few
		return n
	}
	return anyUsable(p.nodes, usable)
}

func (p *roundRobinPicker) Explain(_ *tandem.Call, usable func(*Node) bool, e *Explanation) {
	e.choice(roundRobin{}.Name(), p.nodes, usable, weightOf)
}

// turns counts picks, usually by one. A count that several processors add to at the same time
// costs each of them more than the rest of a pick: a processor that finds another one there
// takes many turns at once for a while, kept in a pool by processor.
type turns struct {
	cursors sync.Pool // of *cursor
	given   atomic.Uint32
}

// cursor is a part of the turns, from next to end.
type cursor struct {
	next, end   uint32
	batchesLeft uint32 // how often it takes many turns at once before it tries one again
	_           [cacheLine - 3*4]byte
}

// cursorTurns is how many turns are taken at once, and cursorTakes how often after a conflict.
// When the garbage collector clears a pooled cursor that was not used for a while, at most
// cursorTurns turns are lost.
const (
	cursorTurns = 64
	cursorTakes = 16
)

func (t *turns) next() uint32 {
	c, ok := t.cursors.Get().(*cursor)
	if !ok {
		c = new(cursor)
	}
	if c.next == c.end {
		t.take(c)
	}
	turn := c.next
	c.next++
	t.cursors.Put(c)
	return turn
}

// take gives the cursor one turn, or many if another processor takes one at the same time.
func (t *turns) take(c *cursor) {
	if c.batchesLeft == 0 {
		next := t.given.Load()
		if t.given.CompareAndSwap(next, next+1) {
			c.next, c.end = next, next+1
			return
		}
		c.batchesLeft = cursorTakes
	}
	c.batchesLeft--
	c.end = t.given.Add(cursorTurns)
	c.next = c.end - cursorTurns
}

// A round has up to 1024 turns, or 16 for each node if that is more, and one
// for each node at least; weights that need longer rounds are rounded.
const (
	maxRound = 1024
	maxTurns = 16
)

// takeTurns lays out a round of the nodes by weight: the turns of each are evenly spaced, and
// all are in the order in which they are due. The first turns of nodes are due at different
// times, so that nodes of equal weight are not next to each other.
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
