package balance_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// calls makes a hundred calls and returns the instances that got some.
func calls(table *balance.Table, call *tandem.Call) string {
	ids := map[string]bool{}
	for range 100 {
		if n := table.Pick(call, usable); n != nil {
			ids[n.Instance.ID] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(ids)), " ")
}

// Policies are combined: the zone's instances of the wanted version, new ones with a growing
// share, and of these the one with the lower load.
func ExampleRoute() {
	policy := balance.Route(balance.Zone("eu-1", balance.SlowStart(30*time.Second, balance.P2C())))
	table := balance.NewTable(policy)
	table.Update([]tandem.Instance{
		{ID: "a", Zone: "eu-1", Version: "1"},
		{ID: "b", Zone: "eu-1", Version: "2"},
		{ID: "c", Zone: "eu-2", Version: "2"},
		{ID: "canary", Zone: "eu-1", Version: "3", Tags: map[string]string{balance.ReservedTag: "canary"}},
	})
	fmt.Println(policy.Name())
	fmt.Println(calls(table, &tandem.Call{Route: &tandem.Route{Version: "1"}}))
	fmt.Println(calls(table, &tandem.Call{Route: &tandem.Route{Tags: map[string]string{"lane": "canary"}}}))
	// Output:
	// route(zone(slow_start(p2c)))
	// a
	// canary
}

func ExampleZone() {
	table := balance.NewTable(balance.Zone("east", balance.Random()))
	table.Update([]tandem.Instance{{ID: "a", Zone: "east"}, {ID: "b", Zone: "east"}, {ID: "c", Zone: "west"}})
	fmt.Println(calls(table, &tandem.Call{}))
	west := func(n *balance.Node) bool { return n.Instance.Zone == "west" } // east is down
	fmt.Println(table.Pick(&tandem.Call{}, west).Instance.ID)
	// Output:
	// a b
	// c
}

func ExampleClosest() {
	sydney := tandem.Position{Latitude: -33.87, Longitude: 151.21}
	table := balance.NewTable(balance.Closest(sydney, balance.P2C()))
	table.Update([]tandem.Instance{
		{ID: "melbourne", Position: &tandem.Position{Latitude: -37.81, Longitude: 144.96}},
		{ID: "tokyo", Position: &tandem.Position{Latitude: 35.69, Longitude: 139.69}},
		{ID: "somewhere"},
	})
	fmt.Println(calls(table, &tandem.Call{}))
	// Output: melbourne
}

// A client of a hundred instances connects to ten.
func ExampleSubset() {
	var list []tandem.Instance
	for i := range 100 {
		list = append(list, tandem.Instance{ID: fmt.Sprint("server-", i)})
	}
	policy := balance.Subset(10, "client-7", balance.P2C())
	fmt.Println(len(policy.Needs().Narrow(list))) // clients connect to these
	// Output: 10
}

// Four clients, numbered from 0, share eight instances: two for each.
func ExampleAperture() {
	var list []tandem.Instance
	for i := range 8 {
		list = append(list, tandem.Instance{ID: fmt.Sprint("server-", i)})
	}
	for client := range 4 {
		table := balance.NewTable(balance.Aperture(client, 4, 2, balance.RoundRobin()))
		table.Update(list)
		fmt.Println(client, calls(table, &tandem.Call{}))
	}
	// Output:
	// 0 server-0 server-1
	// 1 server-2 server-3
	// 2 server-4 server-5
	// 3 server-6 server-7
}

// A new instance gets a tenth of its share at first.
func ExampleSlowStart() {
	table := balance.NewTable(balance.SlowStart(time.Minute, balance.RoundRobin()))
	table.Update([]tandem.Instance{{ID: "old"}})
	table.Update([]tandem.Instance{{ID: "old"}, {ID: "new"}})
	counts := map[string]int{}
	for range 10_000 {
		counts[table.Pick(&tandem.Call{}, usable).Instance.ID]++
	}
	fmt.Println(counts["new"] > 500, counts["new"] < 2000)
	// Output: true true
}

// With aggression 2 a new instance gets more at first: a third after a ninth of the time.
func ExampleSlowStartCurve() {
	policy := balance.SlowStartCurve(90*time.Second, 2, balance.P2C())
	table := balance.NewTable(policy)
	table.Update([]tandem.Instance{{ID: "a", Started: time.Now().Add(-10 * time.Second)}})
	share := table.Explain(&tandem.Call{}, usable).Steps[0].Scores["a"]
	fmt.Printf("%.2f\n", share)
	// Output: 0.33
}

func ExampleSticky() {
	table := balance.NewTable(balance.Sticky(balance.Random()))
	table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}, {ID: "c"}})
	session := &tandem.Call{HashKey: "session-1"}
	first := table.Pick(session, usable)
	table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}})
	fmt.Println(calls(table, session) == first.Instance.ID)
	// Output: true
}

// An instance with three times the calls of another gets a quarter of the new ones.
func ExampleLeastReported() {
	now := time.Now()
	table := balance.NewTable(balance.LeastReported())
	table.Update([]tandem.Instance{
		{ID: "busy", Load: &tandem.Load{At: now, Rate: 600}},
		{ID: "idle", Load: &tandem.Load{At: now, Rate: 200}},
	})
	fmt.Println(table.Explain(&tandem.Call{}, usable).Steps[0].Scores)
	// Output: map[busy:1.5 idle:0.5]
}

// A client that makes a call records the load in the response in the node's Stats.
func ExampleLeastLoaded() {
	table := balance.NewTable(balance.LeastLoaded())
	table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}})
	a := table.Nodes()[0].Stats
	a.Begin()
	a.Report(balance.Load{InFlight: 12, Utilization: 30}) // others' calls
	a.Done(0, false)
	fmt.Println(a.Reported())
	fmt.Println(calls(table, &tandem.Call{}))
	// Output:
	// 12 30
	// b
}

// Explain shows why a call goes to an instance.
func ExampleTable_Explain() {
	table := balance.NewTable(balance.Route(balance.Zone("east", balance.RoundRobin())))
	table.Update([]tandem.Instance{
		{ID: "a", Version: "1", Zone: "east"},
		{ID: "b", Version: "2", Zone: "east"},
		{ID: "c", Version: "2", Zone: "east"},
		{ID: "d", Version: "2", Zone: "west"},
	})
	healthy := func(n *balance.Node) bool { return n.Instance.ID != "c" }
	e := table.Explain(&tandem.Call{Route: &tandem.Route{Version: "2"}}, healthy)
	for _, step := range e.Steps {
		fmt.Println(step.Policy, step.Kept)
	}
	dropped := e.Dropped()
	for _, id := range slices.Sorted(maps.Keys(dropped)) {
		fmt.Println(id, "was dropped:", dropped[id])
	}
	// Output:
	// route [b c d]
	// zone [b c d]
	// roundrobin [b]
	// roundrobin [d]
	// a was dropped: version "1", wanted "2"
	// c was dropped: not usable
}
