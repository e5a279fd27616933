package balance

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// keepStats is for how many lists in a row an instance may be absent before its Stats are
// dropped.
const keepStats = 16

// longAbsence is how long an instance must be absent to count as new when it comes back.
const longAbsence = time.Minute

// Table is the list of instances that one client chooses from, with a policy and the Stats of
// each instance, which outlive changes of the list. It is safe for concurrent use; Pick takes
// no lock.
type Table struct {
	world   *World
	current atomic.Pointer[tableView]

	mu      sync.Mutex
	reports bool                   // the policy uses the Load of instances
	memory  memories               // memories of the policy
	known   map[string]*knownStats // by instance ID
	lists   uint64                 // number of lists so far
	began   bool                   // one of the lists had an instance
}

// tableView is one list, with the policy and its picker; they change together.
type tableView struct {
	policy Policy
	nodes  []*Node
	picker Picker
}

// knownStats are the Stats of an instance that is, or was, in the list.
type knownStats struct {
	Stats

	last        uint64 // number of the last list that it was in
	incarnation string
	started     time.Time
	left        time.Duration // when it was first missing, by Now; 0 while it is there
}

// NewTable returns an empty table.
func NewTable(policy Policy) *Table { return NewTableIn(nil, policy) }

// NewTableIn returns an empty table whose pickers use that world, as in a simulation; nil is
// the process's.
func NewTableIn(world *World, policy Policy) *Table {
	t := &Table{world: world, known: make(map[string]*knownStats)}
	t.setLocked(policy, nil)
	return t
}

// SetPolicy makes another policy choose from now on. The list and all [Stats] stay; other state
// of the pickers, such as the turn of a round robin, is lost.
func (t *Table) SetPolicy(policy Policy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setLocked(policy, t.current.Load().nodes)
}

func (t *Table) setLocked(policy Policy, nodes []*Node) {
	t.reports = policy.Needs().Reports
	t.memory.forget()
	t.current.Store(&tableView{policy, nodes, policy.Build(nodes)})
}

// Update replaces the list. An instance that was in it before, or in one of the last 16 lists,
// keeps its Stats, unless it was started again since. The table keeps the instances, not the
// slice. If only the load that they report to the registry has changed, and the policy does not
// use it, nodes and picker stay.
func (t *Table) Update(instances []tandem.Instance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lists++
	now := t.world.now()
	nodes := make([]*Node, len(instances))
	for i := range instances {
		nodes[i] = &Node{Instance: instances[i], Stats: t.statsLocked(&instances[i], now), world: t.world, memories: &t.memory}
	}
	t.began = t.began || len(instances) > 0
	t.forgetLocked(now)
	if v := t.current.Load(); t.reports || !slices.EqualFunc(nodes, v.nodes, sameButLoad) {
		t.current.Store(&tableView{v.policy, nodes, v.policy.Build(nodes)})
	}
}

// sameButLoad reports whether two nodes differ in nothing but the load that the instance
// reports.
func sameButLoad(a, b *Node) bool {
	x, y := &a.Instance, &b.Instance
	return a.Stats == b.Stats && x.ID == y.ID && slices.Equal(x.Endpoints, y.Endpoints) && slices.Equal(x.Services, y.Services) &&
		x.Weight == y.Weight && x.Version == y.Version && x.Zone == y.Zone && x.Group == y.Group && maps.Equal(x.Tags, y.Tags) &&
		x.Started.Equal(y.Started) && x.Incarnation == y.Incarnation && samePosition(x.Position, y.Position)
}

func samePosition(a, b *tandem.Position) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// Pick returns a node for the call for which usable is true, or nil when there
// is none.
func (t *Table) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	return t.current.Load().picker.Pick(call, usable)
}

// Current returns the nodes of the list and the picker over them, of the same list. The caller
// must not change the slice.
func (t *Table) Current() ([]*Node, Picker) {
	v := t.current.Load()
	return v.nodes, v.picker
}

// Nodes returns the nodes of the list. The caller must not change the slice.
func (t *Table) Nodes() []*Node { return t.current.Load().nodes }

// statsLocked returns the Stats of an instance of the current list.
func (t *Table) statsLocked(in *tandem.Instance, now time.Duration) *Stats {
	k := t.known[in.ID]
	switch {
	case k == nil:
		k = new(knownStats)
		t.known[in.ID] = k
		if t.began {
			k.listed.Store(int64(now))
		} else if !in.Started.IsZero() { // it was there before this client
			k.listed.Store(int64(now - max(0, t.world.since(in.Started))))
		}
	case k.incarnation != in.Incarnation || !k.started.Equal(in.Started): // another process: its Stats begin again
		k = new(knownStats)
		t.known[in.ID] = k
		k.listed.Store(int64(now))
	case k.left != 0 && now-k.left > longAbsence:
		k.listed.Store(int64(now))
	}
	k.last, k.left, k.incarnation, k.started = t.lists, 0, in.Incarnation, in.Started
	return &k.Stats
}

// forgetLocked drops the Stats of instances that have been absent for keepStats lists.
func (t *Table) forgetLocked(now time.Duration) {
	for id, k := range t.known {
		switch {
		case t.lists-k.last > keepStats:
			delete(t.known, id)
		case k.last != t.lists && k.left == 0:
			k.left = now
		}
	}
}
