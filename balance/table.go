package balance

import (
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// keepStats is for how many lists in a row an instance may be absent before its
// Stats are forgotten.
const keepStats = 16

// Table is the list of instances that one client chooses from, with a policy
// and with what is known of each instance, whatever happens to the list. It is
// safe for concurrent use; Pick takes no lock.
type Table struct {
	policy  Policy
	current atomic.Pointer[tableView]

	mu    sync.Mutex
	known map[string]*knownStats // by instance ID
	lists uint64                 // how many there have been
}

// tableView is one list and its picker; they change together.
type tableView struct {
	nodes  []*Node
	picker Picker
}

// knownStats are the Stats of an instance that is, or was, in the list.
type knownStats struct {
	stats *Stats
	last  uint64 // the last list that it was in
}

// NewTable returns an empty table.
func NewTable(policy Policy) *Table {
	t := &Table{policy: policy, known: make(map[string]*knownStats)}
	t.current.Store(&tableView{picker: policy.Build(nil)})
	return t
}

// Update replaces the list. An instance that was in it before, or in one of the
// last 16 lists, keeps its Stats. The table keeps the instances, not the slice.
func (t *Table) Update(instances []tandem.Instance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lists++
	nodes := make([]*Node, len(instances))
	for i := range instances {
		nodes[i] = &Node{Instance: instances[i], Stats: t.statsLocked(instances[i].ID)}
	}
	t.forgetLocked()
	t.current.Store(&tableView{nodes, t.policy.Build(nodes)})
}

// Pick returns a node for the call for which usable is true, or nil when there
// is none.
func (t *Table) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	return t.current.Load().picker.Pick(call, usable)
}

// Current returns the nodes of the list and the picker over them, for who needs
// two that belong together. The caller must not change the slice.
func (t *Table) Current() ([]*Node, Picker) {
	v := t.current.Load()
	return v.nodes, v.picker
}

// Nodes returns the nodes of the list. The caller must not change the slice.
func (t *Table) Nodes() []*Node { return t.current.Load().nodes }

// statsLocked returns the Stats of an instance of the current list.
func (t *Table) statsLocked(id string) *Stats {
	k := t.known[id]
	if k == nil {
		k = &knownStats{stats: new(Stats)}
		t.known[id] = k
	}
	k.last = t.lists
	return k.stats
}

// forgetLocked drops the Stats of instances that have been absent for long.
func (t *Table) forgetLocked() {
	for id, k := range t.known {
		if t.lists-k.last > keepStats {
			delete(t.known, id)
		}
	}
}
