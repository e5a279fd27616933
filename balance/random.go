package balance

import (
	"github.com/tandem-rpc/tandem"
)

// Random returns the policy that chooses at random: evenly, or by weight where
// the weights differ (weighted random).
func Random() Policy { return random{} }

type random struct{}

func (random) Name() string { return "random" }
func (random) Needs() Needs { return Needs{} }

func (random) Build(nodes []*Node) Picker {
	if evenWeights(nodes) {
		return evenPicker{nodes}
	}
	return newWeightedPicker(nodes)
}

// evenPicker gives every node the same chance.
type evenPicker struct{ nodes []*Node }

func (p evenPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	return anyUsable(p.nodes, usable)
}

func (p evenPicker) Explain(_ *tandem.Call, usable func(*Node) bool, e *Explanation) {
	e.choice(random{}.Name(), p.nodes, usable, weightOf)
}

// weightOf is the score in policies that choose by weight alone.
func weightOf(n *Node) float64 { return float64(n.Weight()) }

// weightedPicker gives every node a chance in proportion to its weight, in constant time:
// Walker's alias method, with the table made as M. Vose does it in "A linear algorithm for
// generating random numbers with a given distribution" (1991). A column is drawn evenly; its
// part up to keep belongs to its own node, the rest to another.
type weightedPicker struct {
	nodes   []*Node
	columns []column
}

type column struct {
	keep  uint32 // part of 2^32 that belongs to the column's own node
	other uint32 // index of the node that has the rest
}

// weightedDraws is how often a weighted picker draws before it takes any usable node.
const weightedDraws = 4

func (p *weightedPicker) Pick(_ *tandem.Call, usable func(*Node) bool) *Node {
	for range weightedDraws {
		if n := p.nodes[p.draw(worldOf(p.nodes).random())]; usable(n) {
			return n
		}
	}
	return anyUsable(p.nodes, usable)
}

func (p *weightedPicker) Explain(_ *tandem.Call, usable func(*Node) bool, e *Explanation) {
	e.choice(random{}.Name(), p.nodes, usable, weightOf)
}

// draw turns a random number into an index: its upper half, scaled, selects
// the column, its lower half the side.
func (p *weightedPicker) draw(r uint64) uint32 {
	i := uint32(r >> 32 * uint64(len(p.columns)) >> 32)
	if c := p.columns[i]; uint32(r) >= c.keep { //nolint:gosec // the low half is meant
		return c.other
	}
	return i
}

func newWeightedPicker(nodes []*Node) *weightedPicker {
	p := &weightedPicker{nodes: nodes, columns: make([]column, len(nodes))}
	total := 0
	for _, n := range nodes {
		total += n.Weight()
	}
	// share is how full a node's column is, in parts of 1.
	share := make([]float64, len(nodes))
	var small, large []uint32
	for i, n := range nodes {
		share[i] = float64(n.Weight()) * float64(len(nodes)) / float64(total)
		if share[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	p.fill(share, small, large)
	return p
}

// fill fills every column that is not full from one that is more than full.
func (p *weightedPicker) fill(share []float64, small, large []uint32) {
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		p.columns[s] = column{keep: uint32(share[s] * (1 << 32)), other: l}
		share[l] -= 1 - share[s]
		if share[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) { // full, but for rounding
		p.columns[i] = column{keep: 1<<32 - 1, other: i}
	}
}

// evenWeights reports whether all nodes have the same weight.
func evenWeights(nodes []*Node) bool {
	for _, n := range nodes {
		if n.Weight() != nodes[0].Weight() {
			return false
		}
	}
	return true
}

// anyDraws is how often anyUsable draws before it goes through all nodes.
// With half of the nodes unusable, one pick in 256 gets that far.
const anyDraws = 8

// anyUsable returns a random usable node, or nil. Only if very few nodes are usable do those
// after a row of unusable ones get more than their share.
func anyUsable(nodes []*Node, usable func(*Node) bool) *Node {
	if len(nodes) == 0 {
		return nil
	}
	at, world := 0, worldOf(nodes)
	for range anyDraws {
		at = world.intN(len(nodes))
		if usable(nodes[at]) {
			return nodes[at]
		}
	}
	for i := range nodes {
		if n := nodes[(at+i)%len(nodes)]; usable(n) {
			return n
		}
	}
	return nil
}
