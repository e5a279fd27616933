package balance

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// Sticky returns the policy that keeps what next has chosen: calls with equal keys go to the
// same instance as long as it is usable, and then to the one that next chooses in its place.
// All calls without a key stay together, too. Unlike with [RingHash] each client chooses for
// itself, no key moves when an instance comes, and none moves back to an instance that was
// away.
//
// A client remembers 16,384 keys, fewer if several of them share a bucket; a key that is used
// again after that many others counts as new. Calls that name their instance, and retries that
// avoid an instance, change nothing. Inside [Route], each route has its own keys.
func Sticky(next Policy) Policy { return sticky{wrapper{next}, new(stickyKey)} }

type sticky struct {
	wrapper

	key *stickyKey // identifies the memory in a table
}

// stickyKey is not empty, so that each has an address of its own.
type stickyKey struct{ _ byte }

func (p sticky) Name() string { return p.named("sticky") }

func (p sticky) Needs() Needs {
	n := p.next.Needs()
	n.Prefers = true
	return n
}

func (p sticky) Build(nodes []*Node) Picker {
	m := Remembered(nodes, p.key, newMemory)
	picker := &stickyPicker{branch: newBranch(p.next, nodes), memory: m, list: m.lists.Add(1), byID: make(map[string]*Node, len(nodes))}
	for _, n := range nodes {
		picker.byID[n.Instance.ID] = n
	}
	return picker
}

// memory is a table of choices, in buckets of a few places each.
type memory struct {
	seed    maphash.Seed
	lists   atomic.Uint64 // number of lists so far
	keyless atomic.Pointer[chosen]
	buckets atomic.Pointer[[stickyBuckets]bucket] // nil before the first key
}

const (
	stickyBuckets = 4096
	stickyPlaces  = 4
)

type bucket [stickyPlaces]atomic.Pointer[chosen]

// chosen is what was chosen for a key.
type chosen struct {
	key  uint64 // hash of the key
	node *Node  // a node of the list at that time
	list uint64 // number of that list
}

func newMemory() *memory { return &memory{seed: maphash.MakeSeed()} }

// place returns where the choice for a call is stored, or is to be, and the key's hash.
func (m *memory) place(call *tandem.Call, world *World) (*atomic.Pointer[chosen], uint64) {
	if call == nil || call.HashKey == "" && call.Route == nil {
		return &m.keyless, 0
	}
	key := maphash.String(m.seed, call.HashKey) | 1 // never 0, the hash of no key
	if r := call.Route; r != nil {
		key ^= routeHash(m.seed, r) << 1
	}
	all := m.buckets.Load()
	if all == nil {
		all = new([stickyBuckets]bucket)
		if !m.buckets.CompareAndSwap(nil, all) {
			all = m.buckets.Load()
		}
	}
	b := &all[mix(key)%stickyBuckets]
	var free *atomic.Pointer[chosen]
	for i := range b {
		c := b[i].Load()
		if c != nil && c.key == key {
			return &b[i], key
		}
		if c == nil && free == nil {
			free = &b[i]
		}
	}
	if free == nil {
		free = &b[world.intN(stickyPlaces)]
	}
	return free, key
}

type stickyPicker struct {
	branch

	memory *memory
	list   uint64
	byID   map[string]*Node
}

func (p *stickyPicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	place, key := p.memory.place(call, worldOf(p.nodes))
	was := place.Load()
	if n := p.here(was, key); n != nil && usable(n) {
		if was.list != p.list { // stores the node of the new list, which the next pick finds at once
			place.CompareAndSwap(was, &chosen{key, n, p.list})
		}
		return n
	}
	n := p.picker.Pick(call, usable)
	if n == nil || !healthOnly(call) {
		return n
	}
	if place.CompareAndSwap(was, &chosen{key, n, p.list}) {
		return n
	}
	// Another goroutine was faster, perhaps with the same key.
	if other := p.here(place.Load(), key); other != nil && usable(other) {
		return other
	}
	return n
}

// here returns the node of this list that was chosen for the key, or nil.
func (p *stickyPicker) here(c *chosen, key uint64) *Node {
	switch {
	case c == nil || c.key != key:
		return nil
	case c.list == p.list:
		return c.node
	}
	return p.byID[c.node.Instance.ID]
}

// Explain shows the instance that the call stays with, if there is one.
func (p *stickyPicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	place, key := p.memory.place(call, worldOf(p.nodes))
	stays := p.here(place.Load(), key)
	if stays == nil || !usable(stays) {
		e.narrow("sticky", p.nodes, func(*Node) string { return "" })
		p.branch.explain(call, usable, e)
		return
	}
	e.narrow("sticky", p.nodes, func(n *Node) string {
		if n == stays {
			return ""
		}
		return "calls stay with " + stays.Instance.ID
	})
}
