package balance_test

import (
	"fmt"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// Spare is a policy of one's own that takes the policy after it: that chooses
// among the first half of the list, and the other half is spare. It says of itself
// what a client and a table may want to know.
type Spare struct {
	next  balance.Policy
	count *atomic.Int64 // calls that went to the spare half
}

var (
	_ balance.LatencyAware = Spare{}
	_ balance.LoadAware    = Spare{}
	_ balance.ReportAware  = Spare{}
	_ balance.RouteAware   = Spare{}
	_ balance.PerClient    = Spare{}
)

// Name names both.
func (s Spare) Name() string { return "spare(" + s.next.Name() + ")" }

// UsesLatency is asked by a client: it measures only for policies that look.
func (s Spare) UsesLatency() bool {
	l, ok := s.next.(balance.LatencyAware)
	return ok && l.UsesLatency()
}

// UsesLoad is for those that look at what replies say.
func (s Spare) UsesLoad() bool { return false }

// UsesReports is for those that look at what the registry says.
func (s Spare) UsesReports() bool { return false }

// UsesRoute is for those that keep to the call's route.
func (s Spare) UsesRoute() bool { return false }

// ForClient returns a policy with a count of its own.
func (s Spare) ForClient() balance.Policy { return Spare{s.next, new(atomic.Int64)} }

// Build makes a picker for each half.
func (s Spare) Build(nodes []*balance.Node) balance.Picker {
	half := (len(nodes) + 1) / 2
	return &sparePicker{s, nodes, s.next.Build(nodes[:half]), s.next.Build(nodes[half:])}
}

type sparePicker struct {
	policy      Spare
	nodes       []*balance.Node
	main, spare balance.Picker
}

// Pick goes to the spare half when nobody else can.
func (p *sparePicker) Pick(call *tandem.Call, usable func(*balance.Node) bool) *balance.Node {
	if n := p.main.Pick(call, usable); n != nil {
		return n
	}
	p.policy.count.Add(1)
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
	table := balance.NewTable(Spare{next: balance.RoundRobin()})
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
