package balance

import (
	"cmp"
	"slices"
	"sort"
	"strconv"

	"github.com/tandem-rpc/tandem"
)

// RingHash returns the policy that sends calls with equal keys to the same instance, by
// consistent hashing (D. Karger et al., 1997) with bounded loads: each instance has about a
// hundred points on a ring, by its weight, and a key belongs to the next point. When an
// instance comes or goes, only the keys that it gets or had move. An instance that has more
// than 1.25 times its share of the calls in flight is skipped for the next.
//
// The key is a call's HashKey; calls without one go to a random instance. All processes choose
// the same instance for a key, whatever the order of their lists.
func RingHash() Policy { return ringHash{} }

type ringHash struct{}

func (ringHash) Name() string { return "ring_hash" }
func (ringHash) Needs() Needs { return Needs{} }

// ringPoints is how many points an instance of average weight has. The keys of
// instances of equal weight then differ by a tenth (one standard deviation).
const ringPoints = 100

func (ringHash) Build(nodes []*Node) Picker {
	p := &ringPicker{hashed: newHashed(nodes)}
	for i, n := range p.nodes {
		points := max(1, int(float64(n.Weight())*ringPoints*float64(len(nodes))/float64(p.weight.Load())+0.5))
		for k := range points {
			p.points = append(p.points, ringPoint{hashOf(n.Instance.ID + "#" + strconv.Itoa(k)), uint32(i)})
		}
	}
	slices.SortFunc(p.points, func(a, b ringPoint) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
	})
	return p
}

type ringPoint struct {
	at   uint64
	node uint32
}

type ringPicker struct {
	*hashed
	points []ringPoint
}

func (p *ringPicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	return p.pickByKey(call, usable, p.places())
}

func (p *ringPicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	p.explain(ringHash{}.Name(), call, usable, e, p.places())
}

// places returns the function that finds the nodes for a key.
func (p *ringPicker) places() func(key uint64, try int) *Node {
	next := 0
	return func(key uint64, try int) *Node {
		if try == 0 {
			next = sort.Search(len(p.points), func(i int) bool { return p.points[i].at >= key })
		}
		return p.nodes[p.points[(next+try)%len(p.points)].node]
	}
}
