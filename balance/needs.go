package balance

import (
	"sync"

	"github.com/tandem-rpc/tandem"
)

// Needs is what a [Policy] says of itself to the client and the [Table] that use it. The
// zero value is a policy that chooses by the nodes and their calls in flight alone, and
// that leaves none out.
//
// A policy that takes another one after it returns the Needs of that one with its own
// added. One that embeds the other as a [Policy] does so without a line of code.
type Needs struct {
	// Latency says that pickers look at [Stats.Latency] or [Stats.Peak]. For others a
	// client saves itself the clock.
	Latency bool
	// Load says that pickers look at [Stats.Reported]. For others a client does not
	// keep what servers say about their load in replies.
	Load bool
	// Reports says that pickers look at the Load of instances. For others a [Table]
	// builds no new picker when nothing else changes, and the Load of its nodes may be
	// an old one.
	Reports bool
	// Prefers says that pickers prefer some of the usable nodes to all others whatever
	// their load is, so that one which is refused after it was picked is picked again.
	Prefers bool
	// Route says that pickers keep to the Route of calls. A client puts [Route] in
	// front of others.
	Route bool

	// Eligible returns those of the nodes that the call may go to, of which some may
	// not be usable, for calls that go to several; nil for all nodes. It must not
	// change the slice.
	Eligible func(nodes []*Node, call *tandem.Call, usable func(*Node) bool) []*Node
	// Narrow returns the instances to be connected to, in their order, if pickers as a
	// rule choose among a part of the list; nil for all. A client connects to others
	// when a call is to go there all the same. It must not change the slice.
	Narrow func(instances []tandem.Instance) []tandem.Instance
}

// narrow returns the instances to be connected to.
func (n *Needs) narrow(instances []tandem.Instance) []tandem.Instance {
	if n.Narrow == nil {
		return instances
	}
	return n.Narrow(instances)
}

// narrowBy narrows the parts of a list, of which each is chosen from by a picker
// of its own, and returns what is left of all of them in the list's order. The
// part of an instance is what part returns for it.
func (n *Needs) narrowBy(instances []tandem.Instance, part func(i int) string) []tandem.Instance {
	if n.Narrow == nil {
		return instances
	}
	parts := map[string][]tandem.Instance{}
	for i, in := range instances {
		parts[part(i)] = append(parts[part(i)], in)
	}
	stays := make(map[string]bool, len(instances))
	for _, list := range parts {
		for _, in := range n.Narrow(list) {
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

// wrapper is the part that policies have in common which take the policy that
// comes after them.
type wrapper struct{ next Policy }

// named returns the name of a policy with the one that comes after it.
func (w wrapper) named(name string) string { return name + "(" + w.next.Name() + ")" }

// Remembered returns what a policy remembers beyond the life of a list, for the [Table]
// that the nodes belong to: what empty returned when the policy was first built there.
// So a policy that several clients share has a memory for each, also inside of other
// policies. Nodes of no table have nothing to remember it: empty is called every time.
//
// The key says whose memory it is, as a key of a map: a pointer that the policy holds,
// for example. Remembered is to be called by Build, and is safe for concurrent use.
func Remembered[M any](nodes []*Node, key any, empty func() *M) *M {
	if len(nodes) == 0 || nodes[0].memories == nil {
		return empty()
	}
	all := nodes[0].memories
	all.mu.Lock()
	defer all.mu.Unlock()
	if m, ok := all.of[key].(*M); ok {
		return m
	}
	m := empty()
	if all.of == nil {
		all.of = map[any]any{}
	}
	all.of[key] = m
	return m
}

// memories are what the policies of one table remember.
type memories struct {
	mu sync.Mutex
	of map[any]any
}

// forget makes them empty. Pickers that were built keep theirs.
func (m *memories) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of = nil
}
