package balance

import (
	"sync"

	"github.com/tandem-rpc/tandem"
)

// Needs is what a [Policy] tells the client and the [Table] that use it. The zero value is a
// policy that chooses by the nodes and their calls in flight alone, among all nodes.
//
// A policy that wraps another returns the Needs of that one with its own added. A policy that
// embeds the other as a [Policy] does so without a method of its own.
type Needs struct {
	// Latency says that pickers use [Stats.Latency] or [Stats.Peak]. Otherwise a client does
	// not measure them.
	Latency bool
	// Load says that pickers use [Stats.Reported]. Otherwise a client does not keep the load
	// that servers report in responses.
	Load bool
	// Reports says that pickers use the Load of instances. Otherwise a [Table] builds no new
	// picker when nothing else changes, and the Load of its nodes may be old.
	Reports bool
	// Prefers says that pickers prefer some of the usable nodes to all others whatever their
	// load is, so that a node that was refused after a pick is picked again.
	Prefers bool
	// Route says that pickers follow the Route of calls. A client puts [Route] in front of
	// policies that don't.
	Route bool

	// Eligible returns the nodes that the call may go to, usable or not, for calls that go to
	// several; nil for all nodes. It must not change the slice.
	Eligible func(nodes []*Node, call *tandem.Call, usable func(*Node) bool) []*Node
	// Narrow returns the instances to connect to, in their order, if pickers usually choose
	// from a part of the list; nil for all. A client connects to others when a call goes there.
	// It must not change the slice.
	Narrow func(instances []tandem.Instance) []tandem.Instance
}

// narrow returns the instances to connect to.
func (n *Needs) narrow(instances []tandem.Instance) []tandem.Instance {
	if n.Narrow == nil {
		return instances
	}
	return n.Narrow(instances)
}

// narrowBy narrows each part of a list, from which a picker of its own chooses, and returns the
// remaining instances of all parts in the list's order. part returns the part of an instance.
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

// wrapper is embedded by policies that wrap another policy.
type wrapper struct{ next Policy }

// named returns the name of a policy with that of the policy that it wraps.
func (w wrapper) named(name string) string { return name + "(" + w.next.Name() + ")" }

// Remembered returns a policy's memory that outlives a list, kept by the [Table] of the nodes:
// the value that empty returned when the policy was first built there. So a policy that several
// clients share has a memory for each, also inside of other policies. For nodes that belong to
// no table, empty is called every time.
//
// key identifies the memory, as a key of a map: a pointer that the policy holds, for example.
// Remembered is to be called by Build, and is safe for concurrent use.
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

// memories are the memories of the policies of one table, by key.
type memories struct {
	mu sync.Mutex
	of map[any]any
}

// forget drops all memories. Pickers that were built keep theirs.
func (m *memories) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of = nil
}
