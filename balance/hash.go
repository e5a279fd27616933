package balance

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// hashOf is FNV-1a with 64 bits, then the finalizer of MurmurHash3, which spreads the
// differences of short keys over all bits. It is the same in every process and must never
// change: clients with different hashes would send a key to different instances.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of MurmurHash3: each bit of h changes half of the result.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// hashed is the common part of pickers that choose by a call's key.
type hashed struct {
	nodes   []*Node      // by ID, so that the order of the list does not matter
	keyless Picker       // for calls without a key
	calls   atomic.Int64 // calls in flight on the usable nodes, as of an earlier pick
	weight  atomic.Int64 // weight of the usable nodes, as of that pick
}

func newHashed(nodes []*Node) *hashed {
	h := &hashed{nodes: slices.Clone(nodes), keyless: Random().Build(nodes)}
	slices.SortFunc(h.nodes, func(a, b *Node) int { return strings.Compare(a.Instance.ID, b.Instance.ID) })
	for _, n := range nodes {
		h.weight.Add(int64(n.Weight()))
	}
	return h
}

// pickByKey chooses a node for a call. at returns the nodes for its key in order of preference,
// perhaps with repetitions. pickByKey takes the first that is usable and not full, else the first that
// is usable.
func (h *hashed) pickByKey(call *tandem.Call, usable func(*Node) bool, at func(key uint64, try int) *Node) *Node {
	if call == nil || call.HashKey == "" {
		return h.keyless.Pick(call, usable)
	}
	if len(h.nodes) == 0 {
		return nil
	}
	all, counted := load{h.calls.Load(), h.weight.Load()}, false
	if worldOf(h.nodes).intN(countPicks*len(h.nodes)) == 0 {
		all, counted = h.count(call, usable), true
	}
	key := hashOf(call.HashKey)
	var second *Node
	for try := range hashTries {
		n := at(key, try)
		if !usable(n) {
			continue
		}
		if !counted && all.fills(n) { // the count may be old; no node is refused for that
			all, counted = h.count(call, usable), true
		}
		if !all.fills(n) {
			return n
		}
		if second == nil {
			second = n
		}
	}
	if second != nil {
		return second
	}
	return anyUsable(h.nodes, usable)
}

// explain adds the step of a hashing policy. The scores are the places of the nodes for the
// call's key: 1 is the preferred one.
func (h *hashed) explain(policy string, call *tandem.Call, usable func(*Node) bool, e *Explanation, at func(key uint64, try int) *Node) {
	if call == nil || call.HashKey == "" || len(h.nodes) == 0 {
		e.choice(policy, h.nodes, usable, weightOf)
		return
	}
	all := h.count(call, usable)
	s := e.narrow(policy, h.nodes, func(n *Node) string {
		switch {
		case !usable(n):
			return notUsable
		case all.fills(n):
			return fmt.Sprintf("full: %d calls in flight", n.Stats.InFlight())
		}
		return ""
	})
	s.Scores = map[string]float64{}
	key := hashOf(call.HashKey)
	for try := range hashTries {
		if id := at(key, try).Instance.ID; s.Scores[id] == 0 {
			s.Scores[id] = float64(len(s.Scores) + 1)
		}
	}
}

// hashTries is how many places are tried for a key before any node is taken.
const hashTries = 64

// mostLoad is how many times its share of the calls in flight a node may have: consistent
// hashing with bounded loads (V. Mirrokni, M. Thorup, M. Zadimoghaddam, 2016). A lower value
// moves keys more often; a higher one lets a hot key overload its node more.
const mostLoad = 1.25

// countPicks is the number of picks per node between two counts, on average: a count looks at
// all nodes, so each pick costs half a node.
const countPicks = 2

// load is the number of calls in flight on all usable nodes, and their weight.
type load struct{ calls, weight int64 }

// fills reports whether one more call would give a node more than mostLoad times its share of
// all calls.
func (all load) fills(n *Node) bool {
	limit := mostLoad * float64(all.calls+1) * float64(n.Weight()) / float64(all.weight)
	return float64(n.Stats.InFlight()+1) > math.Ceil(limit)
}

// count adds up the load. It stores the result for other picks if usable depends on the nodes'
// health alone, and not on this call.
func (h *hashed) count(call *tandem.Call, usable func(*Node) bool) (all load) {
	for _, n := range h.nodes {
		if usable(n) {
			all.calls += n.Stats.InFlight()
			all.weight += int64(n.Weight())
		}
	}
	if healthOnly(call) {
		h.calls.Store(all.calls)
		h.weight.Store(all.weight)
	}
	return all
}
