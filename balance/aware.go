package balance

import "github.com/tandem-rpc/tandem"

// What follows are things that a [Policy] may say of itself. Nobody needs to: a
// policy that says nothing chooses by the nodes and their [Stats] alone.

// LatencyAware is implemented by a [Policy] whose pickers look at
// [Stats.Latency]. For others a client saves itself the clock.
type LatencyAware interface {
	UsesLatency() bool
}

// LoadAware is implemented by a [Policy] whose pickers look at [Stats.Reported].
// For others a client does not keep what servers say about their load in replies.
type LoadAware interface {
	UsesLoad() bool
}

// ReportAware is implemented by a [Policy] whose pickers look at the Load of
// instances. For others a [Table] builds no new picker when nothing else changes,
// and the Load of its nodes may be an old one.
type ReportAware interface {
	UsesReports() bool
}

// RouteAware is implemented by a [Policy] whose pickers keep to the Route of
// calls. A client puts [Route] in front of others.
type RouteAware interface {
	UsesRoute() bool
}

// Router is implemented by a [RouteAware] [Policy] that can say where all a call may go:
// for calls that go everywhere.
type Router interface {
	// Eligible returns those of the nodes that the call may go to, of which some
	// may not be usable. It must not change the slice.
	Eligible(nodes []*Node, call *tandem.Call, usable func(*Node) bool) []*Node
}

// Narrower is implemented by a [Policy] whose pickers, as a rule, choose among a
// part of the list. A client then connects to that part; to others when a call is
// to go there all the same.
type Narrower interface {
	// Narrow returns the instances to be connected to, in their order. It must
	// not change the slice.
	Narrow(instances []tandem.Instance) []tandem.Instance
}

// PerClient is implemented by a [Policy] whose pickers remember something beyond
// the life of a list. A [Table] asks it for one that remembers for this table only.
type PerClient interface {
	ForClient() Policy
}

// wrapper is the part that policies have in common which take the policy that
// comes after them. For what is not their own business they speak for that.
type wrapper struct{ next Policy }

func (w wrapper) UsesLatency() bool {
	l, ok := w.next.(LatencyAware)
	return ok && l.UsesLatency()
}

func (w wrapper) UsesLoad() bool {
	l, ok := w.next.(LoadAware)
	return ok && l.UsesLoad()
}

func (w wrapper) UsesReports() bool {
	r, ok := w.next.(ReportAware)
	return ok && r.UsesReports()
}

func (w wrapper) UsesRoute() bool {
	r, ok := w.next.(RouteAware)
	return ok && r.UsesRoute()
}

func (w wrapper) Eligible(nodes []*Node, call *tandem.Call, usable func(*Node) bool) []*Node {
	if r, ok := w.next.(Router); ok {
		return r.Eligible(nodes, call, usable)
	}
	return nodes
}

func (w wrapper) Narrow(instances []tandem.Instance) []tandem.Instance {
	if n, ok := w.next.(Narrower); ok {
		return n.Narrow(instances)
	}
	return instances
}

// named returns the name of a policy with the one that comes after it.
func (w wrapper) named(name string) string { return name + "(" + w.next.Name() + ")" }

// forClient returns the wrapper for one table.
func (w wrapper) forClient() wrapper { return wrapper{forClient(w.next)} }

func forClient(p Policy) Policy {
	if c, ok := p.(PerClient); ok {
		return c.ForClient()
	}
	return p
}

// narrowBy narrows the parts of a list, of which each is chosen from by a picker
// of its own, and returns what is left of all of them in the list's order. The
// part of an instance is what part returns for it.
func (w wrapper) narrowBy(instances []tandem.Instance, part func(i int) string) []tandem.Instance {
	if _, ok := w.next.(Narrower); !ok {
		return instances
	}
	parts := map[string][]tandem.Instance{}
	for i, in := range instances {
		parts[part(i)] = append(parts[part(i)], in)
	}
	stays := make(map[string]bool, len(instances))
	for _, list := range parts {
		for _, in := range w.Narrow(list) {
			stays[in.ID] = true
		}
	}
	var narrowed []tandem.Instance
	for _, in := range instances {
		if stays[in.ID] {
			narrowed = append(narrowed, in)
		}
	}
	return narrowed
}
