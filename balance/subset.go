package balance

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Subset returns the policy that limits a client to size of the instances, at least one, so
// that a thousand clients of a thousand servers don't hold a million connections. The subset is
// drawn by rendezvous hashing (D. Thaler, C. Ravishankar, 1998; gRPC's proposal A68): the
// instances with the highest hash of clientID and their own ID. A client has the same subset
// after a restart, and a change of one instance changes at most one of its subset. How many
// clients an instance has is left to chance: with 100 clients, 100 instances and a size of 20,
// the busiest one has about one and a half times the mean. [Aperture] is even, for clients that
// have numbers.
//
// The clientID must differ between clients; with "" each process draws its own. A client
// connects to its subset only. While no instance of it is usable, and for calls that name an
// instance, it connects to others.
func Subset(size int, clientID string, next Policy) Policy {
	if clientID == "" {
		clientID = drawnID()
	}
	return subset{wrapper{next}, max(1, size), hashOf(clientID)}
}

type subset struct {
	wrapper

	size int
	seed uint64 // hash of the client's ID
}

func (p subset) Name() string { return p.named("subset") }

func (p subset) Needs() Needs {
	next := p.next.Needs()
	own := next
	own.Prefers = true
	own.Narrow = func(instances []tandem.Instance) []tandem.Instance {
		inside := p.inside(len(instances), func(i int) string { return instances[i].ID })
		return next.narrow(only(instances, inside))
	}
	return own
}

func (p subset) Build(nodes []*Node) Picker {
	inside := p.inside(len(nodes), func(i int) string { return nodes[i].Instance.ID })
	return &subsetPicker{newBranch(p.next, only(nodes, inside)), only(nodes, func(i int) bool { return !inside(i) })}
}

// inside returns a function that reports whether the i-th of n instances belongs to the subset.
func (p subset) inside(n int, id func(i int) string) func(i int) bool {
	if n <= p.size {
		return func(int) bool { return true }
	}
	type drawn struct {
		hash uint64
		at   int
	}
	all := make([]drawn, n)
	for i := range all {
		all[i] = drawn{mix(hashOf(id(i)) ^ p.seed), i}
	}
	slices.SortFunc(all, func(a, b drawn) int {
		return cmp.Or(cmp.Compare(b.hash, a.hash), strings.Compare(id(a.at), id(b.at)))
	})
	in := make([]bool, n)
	for _, d := range all[:p.size] {
		in[d.at] = true
	}
	return func(i int) bool { return in[i] }
}

// only returns the elements of a list for which keep is true.
func only[T any](list []T, keep func(i int) bool) []T {
	kept := make([]T, 0, len(list))
	for i, v := range list {
		if keep(i) {
			kept = append(kept, v)
		}
	}
	return kept
}

// subsetPicker chooses within a subset, or among the others while no instance of the subset is
// usable.
type subsetPicker struct {
	branch

	others []*Node
}

func (p *subsetPicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	if n := p.picker.Pick(call, usable); n != nil {
		return n
	}
	return anyUsable(p.others, usable)
}

func (p *subsetPicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	nodes := append(slices.Clone(p.nodes), p.others...)
	e.narrow("subset", nodes, func(n *Node) string {
		if slices.Contains(p.nodes, n) {
			return ""
		}
		return "not in this client's subset"
	})
	p.branch.explain(call, usable, e)
	if !slices.ContainsFunc(p.nodes, usable) {
		e.choice("subset: any other", p.others, usable, nil)
	}
}
