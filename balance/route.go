package balance

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// ReservedTag is the key of a tag that reserves an instance for the calls whose route names the
// tag with its value: a lane.
const ReservedTag = "lane"

// Route returns the policy that lets next choose from the instances that match the call's
// [tandem.Route]. Version and group must be equal if the route names them. A call with tags
// goes to the instances that have all of them; if none of those is usable, and the route is not
// forced, to those that lack some of the keys but have no other value. So a call in a lane uses
// the lane's instances of the services that have some, and the common ones of the others: this
// is Dubbo's tag router with more than one tag.
//
// A tag does not exclude other calls unless it is reserved: tags with the key [ReservedTag]
// are, and those with the reserved keys that are given here. An instance with a reserved tag
// gets only the calls whose route names the tag with this value. So a canary that is started
// with its own lane gets no other calls. A call that names its instance goes there, whatever
// the route.
//
// A picker of next is built for each route when it is first used, and kept, at most 64 for a
// list; for further routes, next chooses from the whole list, with the instances that do not
// match as not usable.
func Route(next Policy, reserved ...string) Policy {
	return route{wrapper{next}, append([]string{ReservedTag}, reserved...), nil}
}

// RouteWith returns a policy of [Route] for calls that count as naming these tags, and so may go
// to the instances that the tags reserve. It returns other policies as they are. The routes of a
// policy.Policy use it, for subsets that name tags.
func RouteWith(policy Policy, tags map[string]string) Policy {
	if r, ok := policy.(route); ok {
		r.granted = tags
		return r
	}
	return policy
}

type route struct {
	wrapper

	reserved []string          // keys of reserved tags
	granted  map[string]string // see RouteWith
}

func (p route) Name() string { return p.named("route") }

// Needs narrows the common instances, and those of each lane.
func (p route) Needs() Needs {
	next := p.next.Needs()
	own := next
	own.Prefers, own.Route, own.Eligible = true, true, p.eligible
	if next.Narrow != nil {
		own.Narrow = func(instances []tandem.Instance) []tandem.Instance { return p.narrow(&next, instances) }
	}
	return own
}

func (p route) narrow(next *Needs, instances []tandem.Instance) []tandem.Instance {
	return next.narrowBy(instances, func(i int) string {
		var lane strings.Builder
		for _, key := range p.reserved {
			fmt.Fprintf(&lane, "%q ", instances[i].Tags[key])
		}
		return lane.String()
	})
}

// eligible returns the nodes that match the call's route exactly if one of them is usable, else
// those that match it loosely.
func (p route) eligible(nodes []*Node, call *tandem.Call, usable func(*Node) bool) []*Node {
	r := call.Route
	if r == nil {
		r = new(tandem.Route)
	}
	exact := p.fitting(nodes, r, false)
	if len(r.Tags) > 0 && !r.Force && !slices.ContainsFunc(exact, usable) {
		return p.fitting(nodes, r, true)
	}
	return exact
}

func (p route) fitting(nodes []*Node, r *tandem.Route, loose bool) (fit []*Node) {
	for _, n := range nodes {
		if p.misfit(&n.Instance, r, loose) == "" {
			fit = append(fit, n)
		}
	}
	return fit
}

func (p route) Build(nodes []*Node) Picker {
	picker := &routePicker{policy: p, nodes: nodes, seed: maphash.MakeSeed()}
	picker.plain = picker.branch(new(tandem.Route), false)
	picker.known.Store(&map[uint64]*routed{})
	return picker
}

type routePicker struct {
	policy route
	nodes  []*Node
	plain  branch // for calls without a route
	seed   maphash.Seed
	known  atomic.Pointer[map[uint64]*routed] // by hash of the route; replaced as a whole

	mu  sync.Mutex // held to add a route
	all *branch    // the whole list, for routes beyond maxRoutes
}

// routed is a route with the nodes that match it.
type routed struct {
	route tandem.Route
	exact branch // nodes that match exactly
	loose branch // nodes that match but for missing tags; no picker if forced or without tags
}

// maxRoutes is how many routes have pickers of their own.
const maxRoutes = 64

func (p *routePicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	switch {
	case call == nil:
		return p.plain.picker.Pick(call, usable)
	case call.Pin != "":
		return p.pinned(call.Pin, usable)
	case call.Route == nil:
		return p.plain.picker.Pick(call, usable)
	}
	hash := routeHash(p.seed, call.Route)
	r := (*p.known.Load())[hash]
	if r == nil {
		r = p.add(hash, call.Route)
	}
	if r == nil || !sameRoute(&r.route, call.Route) {
		return p.filter(call, usable)
	}
	n := r.exact.picker.Pick(call, usable)
	if n == nil && r.loose.picker != nil {
		n = r.loose.picker.Pick(call, usable)
	}
	return n
}

// pinned returns the node that a call names.
func (p *routePicker) pinned(id string, usable func(*Node) bool) *Node {
	for _, n := range p.nodes {
		if n.Instance.ID == id && usable(n) {
			return n
		}
	}
	return nil
}

// routeHash allocates nothing and does not depend on the order of the tags.
func routeHash(seed maphash.Seed, r *tandem.Route) uint64 {
	h := maphash.String(seed, r.Version) ^ mix(maphash.String(seed, r.Group)+1)
	for k, v := range r.Tags {
		h += mix(maphash.String(seed, k) ^ mix(maphash.String(seed, v)+2))
	}
	if r.Force {
		h++
	}
	return h
}

func sameRoute(a, b *tandem.Route) bool {
	return a.Version == b.Version && a.Group == b.Group && a.Force == b.Force && maps.Equal(a.Tags, b.Tags)
}

// add makes the pickers of a new route; nil if there are too many routes.
func (p *routePicker) add(hash uint64, r *tandem.Route) *routed {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := *p.known.Load()
	if known[hash] != nil || len(known) == maxRoutes {
		return known[hash]
	}
	added := &routed{route: *r}
	added.route.Tags = maps.Clone(r.Tags)
	added.exact = p.branch(r, false)
	if len(r.Tags) > 0 && !r.Force {
		added.loose = p.branch(r, true)
	}
	known = maps.Clone(known)
	known[hash] = added
	p.known.Store(&known)
	return added
}

// branch returns the nodes that match, with their picker: plain's if the nodes are the same.
func (p *routePicker) branch(r *tandem.Route, loose bool) branch {
	fit := p.policy.fitting(p.nodes, r, loose)
	if p.plain.picker != nil && slices.Equal(fit, p.plain.nodes) {
		return p.plain
	}
	return newBranch(p.policy.next, fit)
}

// misfit returns why an instance does not match the route, "" if it does. If loose, missing
// tags are allowed.
func (p route) misfit(in *tandem.Instance, r *tandem.Route, loose bool) string {
	switch {
	case r.Version != "" && in.Version != r.Version:
		return fmt.Sprintf("version %q, wanted %q", in.Version, r.Version)
	case r.Group != "" && in.Group != r.Group:
		return fmt.Sprintf("group %q, wanted %q", in.Group, r.Group)
	}
	for _, key := range p.reserved {
		if have, ok := in.Tags[key]; ok {
			want, asked := r.Tags[key]
			if !asked {
				want, asked = p.granted[key]
			}
			if !asked || have != want {
				return fmt.Sprintf("reserved for %s=%s", key, have)
			}
		}
	}
	for key, want := range r.Tags {
		have, ok := in.Tags[key]
		if ok && have != want || !ok && !loose {
			return fmt.Sprintf("tag %s is %q, wanted %q", key, have, want)
		}
	}
	return ""
}

// filter picks for routes without pickers of their own.
func (p *routePicker) filter(call *tandem.Call, usable func(*Node) bool) *Node {
	all := p.everything()
	n := all.picker.Pick(call, func(n *Node) bool { return p.policy.misfit(&n.Instance, call.Route, false) == "" && usable(n) })
	if n == nil && len(call.Route.Tags) > 0 && !call.Route.Force {
		n = all.picker.Pick(call, func(n *Node) bool { return p.policy.misfit(&n.Instance, call.Route, true) == "" && usable(n) })
	}
	return n
}

func (p *routePicker) everything() *branch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		all := newBranch(p.policy.next, p.nodes)
		p.all = &all
	}
	return p.all
}

// Explain shows the instances that match the route exactly, or loosely if none of those is
// usable.
func (p *routePicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	r := new(tandem.Route)
	switch {
	case call != nil && call.Pin != "":
		e.choice("route: the instance that the call names", p.nodes, func(n *Node) bool { return n.Instance.ID == call.Pin && usable(n) }, weightOf)
		return
	case call != nil && call.Route != nil:
		r = call.Route
	}
	loose := false
	if len(r.Tags) > 0 && !r.Force {
		loose = !slices.ContainsFunc(p.nodes, func(n *Node) bool { return p.policy.misfit(&n.Instance, r, false) == "" && usable(n) })
	}
	e.narrow("route", p.nodes, func(n *Node) string { return p.policy.misfit(&n.Instance, r, loose) })
	p.branch(r, loose).explain(call, usable, e)
}
