package balance_test

import (
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

func usable(*balance.Node) bool { return true }

// A client updates its table when the list changes and picks for each call.
func ExampleTable() {
	table := balance.NewTable(balance.RoundRobin())
	table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}})

	counts := map[string]int{}
	for range 10 {
		node := table.Pick(&tandem.Call{}, usable)
		counts[node.Instance.ID]++
	}
	fmt.Println(counts)

	none := table.Pick(&tandem.Call{}, func(*balance.Node) bool { return false })
	fmt.Println(none == nil)
	// Output:
	// map[a:5 b:5]
	// true
}

func ExampleRoundRobin() {
	nodes := []*balance.Node{
		{Instance: tandem.Instance{ID: "big", Weight: 300}},
		{Instance: tandem.Instance{ID: "small"}}, // 100
	}
	picker := balance.RoundRobin().Build(nodes)
	counts := map[string]int{}
	for range 8 {
		counts[picker.Pick(nil, usable).Instance.ID]++
	}
	fmt.Println(counts)
	// Output: map[big:6 small:2]
}

func ExampleRandom() {
	nodes := []*balance.Node{
		{Instance: tandem.Instance{ID: "a"}},
		{Instance: tandem.Instance{ID: "b"}},
	}
	picker := balance.Random().Build(nodes)
	node := picker.Pick(nil, func(n *balance.Node) bool { return n.Instance.ID != "a" })
	fmt.Println(node.Instance.ID)
	// Output: b
}

// Of two instances that are drawn the one with the lower load gets the call.
func ExampleP2C() {
	quick, slow := new(balance.Stats), new(balance.Stats)
	quick.Begin()
	quick.Done(balance.Now()-time.Millisecond, false)
	slow.Begin()
	slow.Done(balance.Now()-time.Second, false)
	picker := balance.P2C().Build([]*balance.Node{
		{Instance: tandem.Instance{ID: "quick"}, Stats: quick},
		{Instance: tandem.Instance{ID: "slow"}, Stats: slow},
	})
	fmt.Println(picker.Pick(nil, usable).Instance.ID)
	// Output: quick
}

// Calls of all clients with equal keys go to the same instance.
func ExampleRingHash() {
	nodes := func(ids ...string) (list []*balance.Node) {
		for _, id := range ids {
			list = append(list, &balance.Node{Instance: tandem.Instance{ID: id}, Stats: new(balance.Stats)})
		}
		return list
	}
	here, there := balance.RingHash().Build(nodes("a", "b", "c")), balance.RingHash().Build(nodes("c", "a", "b"))
	for _, user := range []string{"anna", "berta", "clara"} {
		call := &tandem.Call{HashKey: user}
		fmt.Println(user, here.Pick(call, usable).Instance.ID == there.Pick(call, usable).Instance.ID)
	}
	// Output:
	// anna true
	// berta true
	// clara true
}

// A client records its calls in the node's Stats, which policies use.
func ExampleStats() {
	var s balance.Stats
	s.Begin()
	fmt.Println(s.InFlight())
	began := balance.Now() - 8*time.Millisecond
	s.Done(began, false)
	fmt.Println(s.InFlight(), s.Latency().Round(time.Millisecond), s.Peak().Round(time.Millisecond))
	// Output:
	// 1
	// 0 8ms 8ms
}

// Maglev and JumpHash send a key's calls to one instance as RingHash does.
func ExampleMaglev() {
	for _, policy := range []balance.Policy{balance.Maglev(), balance.JumpHash()} {
		table := balance.NewTable(policy)
		table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}, {ID: "c"}})
		call := &tandem.Call{HashKey: "anna"}
		first := table.Pick(call, usable).Instance.ID
		fmt.Println(policy.Name(), table.Pick(call, usable).Instance.ID == first)
	}
	// Output:
	// maglev true
	// jump_hash true
}

func ExampleLeastInFlight() {
	table := balance.NewTable(balance.LeastInFlight())
	table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}})
	table.Nodes()[0].Stats.Begin()
	fmt.Println(table.Pick(&tandem.Call{}, usable).Instance.ID)
	// Output: b
}

func ExampleShortestLatency() {
	table := balance.NewTable(balance.ShortestLatency())
	table.Update([]tandem.Instance{{ID: "slow"}, {ID: "quick"}})
	for i, took := range []time.Duration{time.Second, time.Millisecond} {
		s := table.Nodes()[i].Stats
		s.Begin()
		s.Done(balance.Now()-took, false)
	}
	fmt.Println(table.Pick(&tandem.Call{}, usable).Instance.ID)
	// Output: quick
}

// An instance that was there before the client counts as listed since it was started, as it
// reports that.
func ExampleStats_Listed() {
	table := balance.NewTable(balance.Random())
	table.Update([]tandem.Instance{{ID: "a", Started: time.Now().Add(-time.Hour)}})
	table.Update([]tandem.Instance{{ID: "a", Started: time.Now().Add(-time.Second)}}) // it was started again
	since := balance.Now() - table.Nodes()[0].Stats.Listed()
	fmt.Println(since < time.Minute)
	_, failed := table.Nodes()[0].Stats.Calls()
	fmt.Println(failed, table.Nodes()[0].Weight())
	nodes, picker := table.Current()
	fmt.Println(picker.Pick(nil, usable) == nodes[0])
	// Output:
	// true
	// 0 100
	// true
}
