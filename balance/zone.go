package balance

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// zoneUsable is which part of the local instances, by weight, must be usable for all calls to
// stay in the zone: each then has 1/0.7 times its usual calls. It is Envoy's overprovisioning
// factor of 1.4.
const zoneUsable = 0.7

// Zone returns the policy that prefers the instances of a zone, and lets next
// choose among them. Calls stay in the zone with the probability
//
//	min(1, usable/0.7) · min(1, capacity · zones)
//
// where usable is which part of the local instances is usable, and capacity which part of all
// instances is local, both by weight. The first factor is Envoy's for localities, the second
// that of its zone aware routing: each zone with instances is assumed to have equally many callers,
// and a zone with less than its part of the capacity keeps only the calls that it has capacity
// for. The other calls go to the zones that have more than their part, in proportion to the
// excess; if there are none, by capacity. If a zone has no usable instance, any other zone is
// used.
//
// The usable ones are counted on average once in as many picks as there are local instances.
// Instances without a zone are a zone of their own. If zone is "", or has no instance, next
// chooses among all. Each zone has its own picker of next. If next connects to a part of the
// instances, the client has a part of its zone, and of each other zone; with more than four zones,
// one of all others together, from which calls that leave the zone choose.
func Zone(zone string, next Policy) Policy { return zoned{wrapper{next}, zone} }

type zoned struct {
	wrapper

	zone string
}

func (p zoned) Name() string { return p.named("zone") }

// zonesApart is the number of zones up to which each other zone is narrowed separately.
const zonesApart = 4

// Needs narrows the local zone, and each of the others, or all others together if there are many.
func (p zoned) Needs() Needs {
	next := p.next.Needs()
	own := next
	own.Prefers = true
	if next.Narrow == nil {
		return own
	}
	own.Narrow = func(instances []tandem.Instance) []tandem.Instance {
		if !slices.ContainsFunc(instances, func(in tandem.Instance) bool { return p.zone != "" && in.Zone == p.zone }) {
			return next.Narrow(instances)
		}
		zones := map[string]bool{}
		for _, in := range instances {
			zones[in.Zone] = true
		}
		return next.narrowBy(instances, func(i int) string {
			if zone := instances[i].Zone; zone == p.zone || len(zones) <= zonesApart {
				return zone
			}
			return "others" + p.zone // not the name of the local zone
		})
	}
	return own
}

func (p zoned) Build(nodes []*Node) Picker {
	zones := map[string][]*Node{}
	for _, n := range nodes {
		zones[n.Instance.Zone] = append(zones[n.Instance.Zone], n)
	}
	if p.zone == "" || len(zones[p.zone]) == 0 {
		return everywhere{newBranch(p.next, nodes), p.zone}
	}
	all, fair := weightOfAll(nodes), 1/float64(len(zones))
	local := zones[p.zone]
	z := &zonePicker{zone: p.zone, all: nodes, local: newBranch(p.next, local), weight: weightOfAll(local)}
	z.capacity = min(1, z.weight/all/fair)
	z.usable.Store(math.Float64bits(1))
	delete(zones, p.zone)
	for name, list := range zones {
		share := weightOfAll(list) / all
		z.others = append(z.others, otherZone{newBranch(p.next, list), name, max(0, share-fair), share})
	}
	z.apportion()
	return z
}

func weightOfAll(nodes []*Node) (sum float64) {
	for _, n := range nodes {
		sum += float64(n.Weight())
	}
	return sum
}

// otherZone is a zone that is not the local one.
type otherZone struct {
	branch

	name    string
	surplus float64 // capacity beyond its fair share
	share   float64 // share of the calls that leave the local zone
}

type zonePicker struct {
	zone     string
	all      []*Node
	local    branch
	weight   float64 // weight of the local nodes
	capacity float64 // part of the calls that the local nodes have the capacity for
	others   []otherZone
	usable   atomic.Uint64 // usable part of the local weight, a float64
}

// apportion computes the zones' shares of the calls that leave.
func (p *zonePicker) apportion() {
	slices.SortFunc(p.others, func(a, b otherZone) int { return strings.Compare(a.name, b.name) })
	surplus := slices.ContainsFunc(p.others, func(o otherZone) bool { return o.surplus > 0 })
	sum := 0.0
	for i := range p.others {
		if o := &p.others[i]; surplus {
			o.share = o.surplus
		}
		sum += p.others[i].share
	}
	for i := range p.others {
		p.others[i].share /= sum
	}
}

func (p *zonePicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	if random := worldOf(p.all).random(); random%uint64(len(p.local.nodes)) == 0 && healthOnly(call) {
		p.count(usable)
	}
	if stay := p.stay(); stay >= 1 || worldOf(p.all).float() < stay {
		if n := p.local.picker.Pick(call, usable); n != nil {
			return n
		}
		return p.elsewhere(call, usable)
	}
	if n := p.elsewhere(call, usable); n != nil {
		return n
	}
	return p.local.picker.Pick(call, usable)
}

// healthOnly reports whether usable depends on the nodes' health alone, and not on the call.
func healthOnly(call *tandem.Call) bool {
	return call == nil || call.Pin == "" && len(call.Exclude) == 0
}

// stay returns which part of the calls stays in the zone.
func (p *zonePicker) stay() float64 {
	return min(1, math.Float64frombits(p.usable.Load())/zoneUsable) * p.capacity
}

func (p *zonePicker) count(usable func(*Node) bool) {
	p.usable.Store(math.Float64bits(p.part(usable)))
}

func (p *zonePicker) part(usable func(*Node) bool) float64 {
	sum := 0.0
	for _, n := range p.local.nodes {
		if usable(n) {
			sum += float64(n.Weight())
		}
	}
	return sum / p.weight
}

// elsewhere picks a node in another zone: one drawn by share, else any with a usable node.
func (p *zonePicker) elsewhere(call *tandem.Call, usable func(*Node) bool) *Node {
	at, left := 0, worldOf(p.all).float()
	for i, o := range p.others {
		if o.share > 0 {
			at = i
		}
		if left -= o.share; left < 0 {
			break
		}
	}
	for i := range p.others {
		if n := p.others[(at+i)%len(p.others)].picker.Pick(call, usable); n != nil {
			return n
		}
	}
	return nil
}

// Explain shows each zone that may get the call; the scores are the part of the calls that the
// instance's zone gets.
func (p *zonePicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	part := p.part(usable)
	stay := min(1, part/zoneUsable) * p.capacity
	gets := map[string]float64{p.zone: stay}
	for _, o := range p.others {
		gets[o.name] = (1 - stay) * o.share
	}
	s := e.narrow("zone", p.all, func(n *Node) string {
		if gets[n.Instance.Zone] > 0 || part == 0 {
			return ""
		}
		return fmt.Sprintf("zone %q: %.0f %% of the calls stay in %q", n.Instance.Zone, 100*stay, p.zone)
	})
	s.Scores = map[string]float64{}
	for _, n := range p.all {
		s.Scores[n.Instance.ID] = gets[n.Instance.Zone]
	}
	p.local.explain(call, usable, e)
	for _, o := range p.others {
		if gets[o.name] > 0 {
			o.explain(call, usable, e)
		}
	}
}

// everywhere is the picker if the zone is unknown.
type everywhere struct {
	branch

	zone string
}

func (p everywhere) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	return p.picker.Pick(call, usable)
}

func (p everywhere) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	e.narrow("zone", p.nodes, func(*Node) string { return "" })
	p.branch.explain(call, usable, e)
}
