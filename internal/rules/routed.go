package rules

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// routed is the balancing policy that lets next choose from the subsets that routes name.
type routed struct {
	table *routeTable
	next  balance.Policy
}

func (p routed) Name() string { return "routes(" + p.next.Name() + ")" }

// Needs narrows the whole list and each subset.
func (p routed) Needs() balance.Needs {
	next := p.next.Needs()
	own := next
	own.Prefers, own.Route, own.Eligible = true, true, p.eligible
	if next.Narrow != nil {
		own.Narrow = func(instances []tandem.Instance) []tandem.Instance { return p.narrow(next.Narrow, instances) }
	}
	return own
}

func (p routed) narrow(narrow func([]tandem.Instance) []tandem.Instance, instances []tandem.Instance) []tandem.Instance {
	stays := map[string]bool{}
	keep := func(list []tandem.Instance) {
		for _, in := range narrow(list) {
			stays[in.ID] = true
		}
	}
	keep(instances)
	for i := range p.table.subsets {
		s := &p.table.subsets[i]
		keep(without(instances, func(in tandem.Instance) bool { return !s.has(&in) }))
	}
	return without(instances, func(in tandem.Instance) bool { return !stays[in.ID] })
}

// without returns the elements that drop does not drop, and leaves list as it is.
func without[T any](list []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), drop)
}

// eligible returns the nodes of the subset that the call goes to. It must not change the call,
// whose goroutine may be waiting.
func (p routed) eligible(nodes []*balance.Node, call *tandem.Call, usable func(*balance.Node) bool) []*balance.Node {
	r := p.table.routeOf(call)
	if r == nil {
		return p.within(everywhere, nodes, call, usable)
	}
	drawn := r.draw(call)
	if i, ok := p.goes(r, drawn, nodes, call, usable); ok {
		return p.within(i, nodes, call, usable)
	}
	return p.within(r.to[drawn].subset, nodes, call, usable)
}

// goes returns the subset that a call goes to after it has drawn; false if all are empty.
func (p routed) goes(r *route, drawn int, nodes []*balance.Node, call *tandem.Call, usable func(*balance.Node) bool) (int, bool) {
	for _, i := range r.order(drawn) {
		if slices.ContainsFunc(p.within(i, nodes, call, usable), func(n *balance.Node) bool {
			return usable(n) || slices.Contains(call.Exclude, n.Instance.ID)
		}) {
			return i, true
		}
	}
	return 0, false
}

// within returns the nodes of a subset that the call may go to, usable or not.
func (p routed) within(subset int, nodes []*balance.Node, call *tandem.Call, usable func(*balance.Node) bool) []*balance.Node {
	if subset != everywhere {
		nodes = nodesOf(&p.table.subsets[subset], nodes)
	}
	if eligible := p.policyOf(subset).Needs().Eligible; eligible != nil {
		nodes = eligible(nodes, call, usable)
	}
	return nodes
}

// routeOf returns the first route that matches a call, nil if none does.
func (t *routeTable) routeOf(call *tandem.Call) *route {
	if call == nil || call.Pin != "" {
		return nil
	}
	if at := t.match(call); at >= 0 {
		return &t.routes[at]
	}
	return nil
}

// everywhere stands for all instances in place of a subset.
const everywhere = -1

// order returns the subsets that a call may go to after it has drawn, in the order in which they
// are tried.
func (r *route) order(drawn int) []int {
	list := append([]int{r.to[drawn].subset}, r.fallback...)
	if r.anywhere {
		list = append(list, everywhere)
	}
	return list
}

// draw returns the place of the subset in to that a call goes to. All attempts at a call get the
// same one.
func (r *route) draw(call *tandem.Call) int {
	if len(r.to) == 1 {
		return 0
	}
	if r.sticky != nil {
		if at, ok := r.sticky.at(call); ok {
			return r.drawn(at)
		}
	}
	if call.Draw == 0 {
		return r.drawn(rand.Float64())
	}
	return r.drawn(unit(uint64(call.Draw) << 32))
}

func (r *route) drawn(at float64) int {
	at *= r.total
	for i := range r.to {
		if at < r.to[i].until {
			return i
		}
	}
	return len(r.to) - 1
}

func nodesOf(s *subset, nodes []*balance.Node) []*balance.Node {
	return without(nodes, func(n *balance.Node) bool { return !s.has(&n.Instance) })
}

// policyOf returns the policy that chooses from a subset. A subset may name tags that reserve its
// instances.
func (p routed) policyOf(subset int) balance.Policy {
	if subset == everywhere {
		return p.next
	}
	return balance.RouteWith(p.next, p.table.subsets[subset].labels.Tags)
}

func (p routed) Build(nodes []*balance.Node) balance.Picker {
	return &routedPicker{policy: p, nodes: nodes, all: p.next.Build(nodes), parts: make([]part, len(p.table.subsets))}
}

type routedPicker struct {
	policy routed
	nodes  []*balance.Node
	all    balance.Picker
	parts  []part // by place of the subset
}

// part is the instances of a subset, with a picker of their own. It is made when a call first
// goes there.
type part struct {
	once   sync.Once
	nodes  []*balance.Node
	picker balance.Picker
}

func (p *routedPicker) part(i int) *part {
	t := &p.parts[i]
	t.once.Do(func() {
		s := &p.policy.table.subsets[i]
		if t.nodes, t.picker = p.nodes, p.all; !s.all() {
			t.nodes = nodesOf(s, p.nodes)
			t.picker = p.policy.policyOf(i).Build(t.nodes)
		}
	})
	return t
}

func (p *routedPicker) Pick(call *tandem.Call, usable func(*balance.Node) bool) *balance.Node {
	r := p.policy.table.routeOf(call)
	if r == nil {
		return p.all.Pick(call, usable)
	}
	n, ok := p.from(r.to[r.draw(call)].subset, call, usable)
	for i := 0; !ok && i < len(r.fallback); i++ {
		n, ok = p.from(r.fallback[i], call, usable)
	}
	if !ok && r.anywhere {
		return p.all.Pick(call, usable)
	}
	return n
}

// from picks from a subset. It returns false if the subset has no usable instance; an instance
// that the call excludes is no reason to leave the subset.
func (p *routedPicker) from(subset int, call *tandem.Call, usable func(*balance.Node) bool) (*balance.Node, bool) {
	t := p.part(subset)
	if n := t.picker.Pick(call, usable); n != nil {
		return n, true
	}
	return nil, len(call.Exclude) > 0 && t.excludes(call, usable)
}

// excludes reports whether an instance of the subset is not usable only because the call excludes
// it. usable reads the exclusions from the call, which belongs to this goroutine.
func (t *part) excludes(call *tandem.Call, usable func(*balance.Node) bool) bool {
	excluded := call.Exclude
	call.Exclude = nil
	defer func() { call.Exclude = excluded }()
	return slices.ContainsFunc(t.nodes, func(n *balance.Node) bool {
		return slices.Contains(excluded, n.Instance.ID) && usable(n)
	})
}
