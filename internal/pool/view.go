package pool

import (
	"iter"
	"slices"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/resilience"
)

// view is the list of instances that calls use. It is replaced as a whole.
type view struct {
	sole     *balance.Node // the only node, if it takes calls without a route
	only     *member       // the member of sole; nil if the client does not connect to it
	picker   balance.Picker
	nodes    []*balance.Node
	members  []*member             // the members of nodes, in the same order; nil for those that the client does not connect to
	places   map[*balance.Node]int // index in nodes and members; nil for a few nodes
	byID     map[string]int        // index in nodes and members by ID; nil for a few nodes
	suspects map[string]bool       // suspects of the registry, by ID
	withheld map[string]string     // instances that get no calls, by ID, and why
	stale    error                 // why the list may be old; nil if it is not
}

// maxScan is the number of instances up to which a search is quicker than a map.
const maxScan = 8

// index makes the maps of a view with many nodes.
func (v *view) index() {
	if len(v.nodes) <= maxScan {
		return
	}
	v.places, v.byID = make(map[*balance.Node]int, len(v.nodes)), make(map[string]int, len(v.nodes))
	for i, n := range v.nodes {
		v.places[n], v.byID[n.Instance.ID] = i, i
	}
}

// place returns the index of a node, -1 for one of another list.
func (v *view) place(n *balance.Node) int {
	if v.places == nil {
		return slices.Index(v.nodes, n)
	}
	if i, ok := v.places[n]; ok {
		return i
	}
	return -1
}

// member returns the connections to an instance, nil if there are none.
func (v *view) member(n *balance.Node) *member {
	if n == v.sole && v.only != nil {
		return v.only // it is next to sole: the rest is not in the cache if there are many clients
	}
	if i := v.place(n); i >= 0 {
		return v.members[i]
	}
	return v.memberOf(n.Instance.ID) // n is of an older or a newer list
}

// placeOf returns the index of the node with that ID, -1 if there is none.
func (v *view) placeOf(id string) int {
	if v.byID == nil {
		return slices.IndexFunc(v.nodes, func(n *balance.Node) bool { return n.Instance.ID == id })
	}
	if i, ok := v.byID[id]; ok {
		return i
	}
	return -1
}

// named returns the node with the ID, nil if there is none.
func (v *view) named(id string) *balance.Node {
	if i := v.placeOf(id); i >= 0 {
		return v.nodes[i]
	}
	return nil
}

// memberOf returns the connections to the instance with that ID, nil if there are none, or v is
// nil.
func (v *view) memberOf(id string) *member {
	if v == nil {
		return nil
	}
	if i := v.placeOf(id); i >= 0 {
		return v.members[i]
	}
	return nil
}

// list returns the registry's list that the view was made of.
func (v *view) list() adapter.View {
	list := adapter.View{Suspect: v.suspects, Withheld: v.withheld, Stale: v.stale}
	for _, n := range v.nodes {
		list.Instances = append(list.Instances, n.Instance)
	}
	return list
}

// all returns the instances that the client connects to; none if v is nil.
func (v *view) all() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		if v == nil {
			return
		}
		for _, m := range v.members {
			if m != nil && !yield(m) {
				return
			}
		}
	}
}

// member is an instance with its connections.
type member struct {
	peer             *tandem.Peer // the peer of calls that wait for a connection
	connectedForCall atomic.Bool  // the policy does not want a connection to it; a call did
	links            []link
	one              [1]link // the memory of links, if there is one
	breaker          *resilience.Breaker
	throttles        throttles
	used             atomic.Bool                                    // a call has used it since the last list; for connectedForCall only
	lost             atomic.Pointer[Conn]                           // the last connection whose end was counted
	slow             atomic.Int64                                   // ns; latency from which on calls were too slow, if it was ejected for that; else 0
	why              atomic.Pointer[string]                         // why its breaker opened last
	methods          atomic.Pointer[map[string]*resilience.Breaker] // replaced as a whole; nil at first

	instance *tandem.Instance // the instance of its node; guarded by the mutex of the pool
}
