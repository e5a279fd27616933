package balance

import (
	"github.com/tandem-rpc/tandem"
)

// Maglev returns the policy that sends calls with equal keys to the same instance by the table
// of D. Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer" (2016):
// each instance fills, in its own order, as many places of a table as its weight says. It
// spreads keys more evenly than [RingHash] and finds the instance at once, but when an instance
// comes or goes a few keys of the others move as well. Bounded loads, the key, and calls
// without a key are as with RingHash.
func Maglev() Policy { return maglev{} }

type maglev struct{}

func (maglev) Name() string { return "maglev" }
func (maglev) Needs() Needs { return Needs{} }

// Sizes of the table: primes, and at least a hundred places for each instance of
// average weight. Beyond 6,553 instances the spread is coarser.
const (
	maglevSmall = 65_537
	maglevLarge = 655_373
)

func (maglev) Build(nodes []*Node) Picker {
	p := &maglevPicker{hashed: newHashed(nodes)}
	if len(nodes) > 0 {
		p.fill(maglevSmall)
	}
	return p
}

type maglevPicker struct {
	*hashed
	table []uint32 // indices of nodes
}

// filling is the state of a node while the table is filled.
type filling struct {
	offset, skip, next uint64
	turns              float64 // turns due to it: by its weight, at most 1 a round
	weight             float64 // weight as a part of the heaviest node's
}

func (p *maglevPicker) fill(size uint64) {
	if uint64(len(p.nodes))*100 > size {
		size = maglevLarge
	}
	heaviest := 0
	for _, n := range p.nodes {
		heaviest = max(heaviest, n.Weight())
	}
	all := make([]filling, len(p.nodes))
	for i, n := range p.nodes {
		h := hashOf(n.Instance.ID)
		all[i] = filling{offset: h % size, skip: mix(h+1)%(size-1) + 1, weight: float64(n.Weight()) / float64(heaviest)}
	}
	p.table = make([]uint32, size)
	taken := make([]bool, size)
	for left := size; left > 0; {
		for i := range all {
			f := &all[i]
			if f.turns += f.weight; f.turns < 1 || left == 0 {
				continue
			}
			f.turns--
			at := (f.offset + f.next*f.skip) % size
			for taken[at] {
				f.next++
				at = (f.offset + f.next*f.skip) % size
			}
			p.table[at], taken[at] = uint32(i), true
			f.next++
			left--
		}
	}
}

func (p *maglevPicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	return p.pickByKey(call, usable, p.place)
}

func (p *maglevPicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	p.explain(maglev{}.Name(), call, usable, e, p.place)
}

func (p *maglevPicker) place(key uint64, try int) *Node {
	if try > 0 { // another place of the table, the same in all clients for this key
		key = mix(key + uint64(try))
	}
	return p.nodes[p.table[key%uint64(len(p.table))]]
}
