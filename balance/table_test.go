package balance

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// instances returns an instance for each ID.
func instances(ids ...string) []tandem.Instance {
	list := make([]tandem.Instance, len(ids))
	for i, id := range ids {
		list[i] = tandem.Instance{ID: id}
	}
	return list
}

// stats returns the Stats by instance ID.
func stats(t *Table) map[string]*Stats {
	m := map[string]*Stats{}
	for _, n := range t.Nodes() {
		m[n.Instance.ID] = n.Stats
	}
	return m
}

func TestTableKeepsStats(t *testing.T) {
	table := NewTable(RoundRobin())
	if table.Pick(nil, all) != nil || len(table.Nodes()) != 0 {
		t.Error("a new table has nodes")
	}
	table.Update(instances("a", "b"))
	before := stats(table)
	before["a"].Begin()

	changed := instances("b", "a", "c")
	changed[1].Weight = 7
	table.Update(changed)
	after := stats(table)
	if len(after) != 3 || after["a"] != before["a"] || after["b"] != before["b"] {
		t.Errorf("before %v, after %v", before, after)
	}
	if n := table.Nodes()[1]; n.Weight() != 7 || n.Stats.InFlight() != 1 {
		t.Errorf("node %+v", n)
	}

	table.Update(instances("c")) // a is away for a moment
	if table.Pick(nil, all).Instance.ID != "c" {
		t.Error("an instance that is gone was chosen")
	}
	table.Update(instances("a"))
	if stats(table)["a"] != before["a"] {
		t.Error("the stats are lost")
	}
}

func TestTableForgets(t *testing.T) {
	table := NewTable(Random())
	table.Update(instances("a"))
	first := stats(table)["a"]
	for range keepStats {
		table.Update(nil)
	}
	table.Update(instances("a"))
	if stats(table)["a"] != first {
		t.Error("forgotten too soon")
	}
	for range keepStats + 1 {
		table.Update(nil)
	}
	if len(table.known) != 0 {
		t.Errorf("%d are remembered", len(table.known))
	}
}

// Nodes and picker of Current are of the same list, and are those of Pick and Nodes.
func TestTableCurrent(t *testing.T) {
	table := NewTable(RoundRobin())
	table.Update(instances("a"))
	nodes, picker := table.Current()
	if len(nodes) != 1 || nodes[0] != table.Nodes()[0] || picker.Pick(nil, all) != nodes[0] {
		t.Errorf("got %v", nodes)
	}
	table.Update(instances("b"))
	if picker.Pick(nil, all) != nodes[0] {
		t.Error("a new list changes an old picker")
	}
}

// A registry that gives all instances new IDs each time does not use up the memory.
func TestTableIsBounded(t *testing.T) {
	table := NewTable(Random())
	for i := range 1000 {
		table.Update(instances(fmt.Sprint("a", i), fmt.Sprint("b", i)))
	}
	if limit := 2 * (keepStats + 1); len(table.known) > limit {
		t.Errorf("%d are remembered, limit %d", len(table.known), limit)
	}
}

// Picks continue while the list changes, and always use one list.
func TestTableConcurrently(t *testing.T) {
	table := NewTable(RoundRobin())
	table.Update(instances("a"))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range 500 {
				table.Update(instances("a", fmt.Sprint(i)))
			}
		})
		wg.Go(func() {
			for range 5000 {
				n := table.Pick(nil, all)
				if n == nil {
					t.Error("no node picked")
					return
				}
				n.Stats.Begin()
				n.Stats.Done(1, false)
			}
		})
	}
	wg.Wait()
	if n := len(table.Nodes()); n != 2 {
		t.Errorf("%d nodes", n)
	}
}

// Another policy gets the same list and the same Stats, and a memory for this table only.
func TestTableSetPolicy(t *testing.T) {
	table := NewTable(Random())
	table.Update(instances("a", "b"))
	before := stats(table)
	before["a"].Begin()
	shared := Sticky(RoundRobin())
	table.SetPolicy(shared)
	other := NewTable(shared)
	other.Update(instances("a", "b"))
	remembered := func(t *Table) *memory { return t.current.Load().picker.(*stickyPicker).memory }
	kept := remembered(table)
	if kept == remembered(other) {
		t.Error("what sticks is shared with other tables")
	}
	if table.Update(instances("a", "b", "c")); remembered(table) != kept {
		t.Error("what sticks is lost with the list")
	}
	if table.SetPolicy(shared); remembered(table) == kept {
		t.Error("what stuck is not forgotten")
	}
	table.Update(instances("a", "b"))
	if after := stats(table); len(after) != 2 || after["a"] != before["a"] || after["a"].InFlight() != 1 {
		t.Errorf("before %v, after %v", before, after)
	}
	if e := table.Explain(new(tandem.Call), all); e.Steps[0].Policy != "sticky" && e.Steps[len(e.Steps)-1].Policy != "roundrobin" {
		t.Errorf("explained as %+v", e.Steps)
	}
	call := &tandem.Call{HashKey: "k"}
	first := table.Pick(call, all)
	for range 5 {
		if table.Pick(call, all) != first {
			t.Error("it does not stick")
		}
	}
	if table.reports {
		t.Error("it looks at reports")
	}
	table.SetPolicy(LeastReported())
	table.Update(instances("a", "b", "c"))
	if !table.reports || len(table.Nodes()) != 3 || stats(table)["a"] != before["a"] {
		t.Errorf("reports %v, %d nodes", table.reports, len(table.Nodes()))
	}
}
