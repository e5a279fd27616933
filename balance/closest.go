package balance

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tandem-rpc/tandem"
)

// asClose is how much farther than the closest instance of a group the others may be, in km.
// Light in a fibre takes half a millisecond there and back.
const asClose = 50

// Closest returns the policy that prefers the instances that are closest to a position on
// earth, by the great-circle distance (haversine formula, R. W. Sinnott, "Virtues of the
// Haversine", 1984). Instances that are at most 50 km farther than the closest form a group
// with it, in which next chooses. Only if no instance of a group is usable does the call go to
// the next group. Instances without a known position come last. If position is not a place on
// earth, all instances are in one group.
func Closest(position tandem.Position, next Policy) Policy {
	return closest{wrapper{next}, position}
}

type closest struct {
	wrapper

	position tandem.Position
}

func (p closest) Name() string { return p.named("closest") }

// Needs narrows each group.
func (p closest) Needs() Needs {
	next := p.next.Needs()
	own := next
	own.Prefers = true
	if next.Narrow != nil {
		own.Narrow = func(instances []tandem.Instance) []tandem.Instance { return p.narrow(&next, instances) }
	}
	return own
}

func (p closest) narrow(next *Needs, instances []tandem.Instance) []tandem.Instance {
	nodes := make([]*Node, len(instances))
	for i := range instances {
		nodes[i] = &Node{Instance: instances[i]}
	}
	group := map[string]string{}
	for i, nodes := range p.groups(nodes) {
		for _, n := range nodes {
			group[n.Instance.ID] = strconv.Itoa(i)
		}
	}
	return next.narrowBy(instances, func(i int) string { return group[instances[i].ID] })
}

func (p closest) Build(nodes []*Node) Picker {
	picker := &closestPicker{position: p.position, nodes: nodes}
	for _, group := range p.groups(nodes) {
		picker.groups = append(picker.groups, newBranch(p.next, group))
	}
	return picker
}

// groups returns the nodes in groups of about the same distance, the closest first.
func (p closest) groups(nodes []*Node) (groups [][]*Node) {
	sorted := slices.Clone(nodes)
	slices.SortStableFunc(sorted, func(a, b *Node) int {
		return cmp.Compare(distance(p.position, a), distance(p.position, b))
	})
	first := 0.0
	for i, n := range sorted {
		if d := distance(p.position, n); i == 0 || d > first+asClose {
			groups = append(groups, nil)
			first = d
		}
		last := &groups[len(groups)-1]
		*last = append(*last, n)
	}
	return groups
}

// earthRadius is the mean radius, in km.
const earthRadius = 6371.0088

// distance returns the distance from a position to a node, in km; +Inf if one of the positions
// is not known.
func distance(from tandem.Position, n *Node) float64 {
	to := n.Instance.Position
	if to == nil || !onEarth(from) || !onEarth(*to) {
		return math.Inf(1)
	}
	const degree = math.Pi / 180
	north := math.Sin((to.Latitude - from.Latitude) * degree / 2)
	east := math.Sin((to.Longitude - from.Longitude) * degree / 2)
	h := north*north + math.Cos(from.Latitude*degree)*math.Cos(to.Latitude*degree)*east*east
	return 2 * earthRadius * math.Asin(math.Sqrt(min(1, h)))
}

// onEarth is false for NaN, too.
func onEarth(p tandem.Position) bool {
	return math.Abs(p.Latitude) <= 90 && math.Abs(p.Longitude) <= 180
}

type closestPicker struct {
	position tandem.Position
	nodes    []*Node
	groups   []branch // the closest first
}

func (p *closestPicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	for i := range p.groups {
		if n := p.groups[i].picker.Pick(call, usable); n != nil {
			return n
		}
	}
	return nil
}

// Explain's scores are distances in km, where they are known.
func (p *closestPicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	at := slices.IndexFunc(p.groups, func(b branch) bool { return slices.ContainsFunc(b.nodes, usable) })
	chosen := branch{}
	if at >= 0 {
		chosen = p.groups[at]
	}
	s := e.narrow("closest", p.nodes, func(n *Node) string {
		switch {
		case slices.Contains(chosen.nodes, n):
			return ""
		case at < 0 || slices.ContainsFunc(p.groups[:at], func(b branch) bool { return slices.Contains(b.nodes, n) }):
			return "none that is as close is usable"
		}
		if d := distance(p.position, n); !math.IsInf(d, 1) {
			return fmt.Sprintf("%.0f km away", d)
		}
		return "position unknown"
	})
	s.Scores = map[string]float64{}
	for _, n := range p.nodes {
		if d := distance(p.position, n); !math.IsInf(d, 1) {
			s.Scores[n.Instance.ID] = d
		}
	}
	if at >= 0 {
		chosen.explain(call, usable, e)
	}
}
