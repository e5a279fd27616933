package balance_test

import (
	"fmt"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// Spare is a custom policy that wraps another: that one chooses among the first half of the
// list, and the other half is spare. It embeds the other as a Policy, so it has its Needs, and
// its connections are those of that one.
type Spare struct {
	balance.Policy

	key *spared // one for each Spare
}

// spared counts the calls of one client that went to the spare half.
type spared struct{ calls atomic.Int64 }

// NewSpare returns the policy that wraps next.
func NewSpare(next balance.Policy) Spare { return Spare{next, new(spared)} }

// Name returns the names of both.
func (s Spare) Name() string { return "spare(" + s.Policy.Name() + ")" }

// Needs adds to the Needs of the other one: its preference does not depend on load.
func (s Spare) Needs() balance.Needs {
	n := s.Policy.Needs()
	n.Prefers = true
	return n
}

// Build makes a picker for each half. The count is kept when the list changes.
func (s Spare) Build(nodes []*balance.Node) balance.Picker {
	half := (len(nodes) + 1) / 2
	count := balance.Remembered(nodes, s.key, func() *spared { return new(spared) })
	return &sparePicker{count, nodes, s.Policy.Build(nodes[:half]), s.Policy.Build(nodes[half:])}
}

type sparePicker struct {
	count       *spared
	nodes       []*balance.Node
	main, spare balance.Picker
}

// Pick uses the spare half if no node of the first is usable.
func (p *sparePicker) Pick(call *tandem.Call, usable func(*balance.Node) bool) *balance.Node {
	if n := p.main.Pick(call, usable); n != nil {
		return n
	}
	p.count.calls.Add(1)
	return p.spare.Pick(call, usable)
}

// Explain adds a step of its own and those of the picker that chooses.
func (p *sparePicker) Explain(call *tandem.Call, usable func(*balance.Node) bool, e *balance.Explanation) {
	s := balance.Step{Policy: "spare", Dropped: map[string]string{}}
	for i, n := range p.nodes {
		if i < (len(p.nodes)+1)/2 {
			s.Kept = append(s.Kept, n.Instance.ID)
		} else {
			s.Dropped[n.Instance.ID] = "spare"
		}
	}
	e.Steps = append(e.Steps, s)
	if x, ok := p.main.(balance.Explainer); ok {
		x.Explain(call, usable, e)
	}
}

func ExamplePolicy() {
	table := balance.NewTable(NewSpare(balance.RoundRobin()))
	table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}})
	fmt.Println(calls(table, &tandem.Call{}))
	down := func(n *balance.Node) bool { return n.Instance.ID > "b" }
	fmt.Println(table.Pick(&tandem.Call{}, down).Instance.ID > "b")
	for _, s := range table.Explain(&tandem.Call{}, usable).Steps {
		fmt.Println(s.Policy, s.Kept, s.Dropped)
	}
	// Output:
	// a b
	// true
	// spare [a b] map[c:spare d:spare]
	// roundrobin [a b] map[]
}

// A custom policy wraps one of this package, inside of another: the Needs of the innermost
// apply to the whole.
func ExampleNeeds() {
	policy := balance.Route(NewSpare(balance.Subset(2, "me", balance.P2C())))
	needs := policy.Needs()
	list := []tandem.Instance{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}, {ID: "f"}}
	fmt.Println(needs.Latency, needs.Route, len(needs.Narrow(list)))
	// Output: true true 2
}

// Two clients with the same policy have separate memories, which a new list does not clear.
func ExampleRemembered() {
	policy := NewSpare(balance.Random())
	a, b := balance.NewTable(policy), balance.NewTable(policy)
	list := []tandem.Instance{{ID: "main"}, {ID: "spare"}}
	a.Update(list)
	b.Update(list)
	a.Pick(&tandem.Call{}, func(n *balance.Node) bool { return n.Instance.ID == "spare" })
	a.Update(append(list, tandem.Instance{ID: "new"}))
	for _, table := range []*balance.Table{a, b} {
		_, picker := table.Current()
		fmt.Println(picker.(*sparePicker).count.calls.Load())
	}
	// Output:
	// 1
	// 0
}
