package balance

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Run with -cpu 1,2. The goal is 30 ns a pick, whatever the number of nodes.
func BenchmarkPick(b *testing.B) {
	for _, p := range append(policies(), Sticky(P2C())) {
		for _, n := range []int{10, 100, 1000, 10_000} {
			even, mixed := make([]int, n), make([]int, n)
			for i := range mixed {
				mixed[i] = 1 + i%7*50
			}
			b.Run(fmt.Sprintf("%s/even/%d", p.Name(), n), func(b *testing.B) { benchmarkPick(b, p, weighted(even...)) })
			b.Run(fmt.Sprintf("%s/weighted/%d", p.Name(), n), func(b *testing.B) { benchmarkPick(b, p, weighted(mixed...)) })
		}
	}
}

func benchmarkPick(b *testing.B, p Policy, nodes []*Node) {
	for i, n := range nodes {
		n.Stats.ended.Store(2 * newcomerCalls)
		n.Stats.begun.Store(2 * newcomerCalls)
		n.Stats.observe(Now(), time.Duration(1+i%5)*time.Millisecond, false)
	}
	picker, call := p.Build(nodes), new(tandem.Call)
	usable := func(n *Node) bool { return n.Stats != nil }
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if picker.Pick(call, usable) == nil {
				b.Error("no node picked")
			}
		}
	})
}

// BenchmarkPickBusy is the cost of policies under conditions in which they have work to do.
func BenchmarkPickBusy(b *testing.B) {
	nodes := zones(10, 60, 30)
	for i, n := range nodes {
		n.Instance.Version = strconv.Itoa(i % 2)
		n.Stats.listed.Store(int64(Now()))
	}
	route := &tandem.Route{Version: "1", Tags: tags("shard", "7")}
	for name, bench := range map[string]struct {
		policy Policy
		call   *tandem.Call
	}{
		"route":      {Route(P2C()), &tandem.Call{Route: route}},
		"zone":       {Zone("a", P2C()), nil}, // a third of the calls stay
		"aperture":   {Aperture(3, 7, 12, P2C()), nil},
		"slow_start": {SlowStart(time.Hour, P2C()), nil}, // all are new
		"sticky":     {Sticky(P2C()), &tandem.Call{HashKey: "user-1234"}},
		"all":        {Route(Sticky(Zone("a", SlowStart(time.Hour, P2C())))), &tandem.Call{Route: route, HashKey: "user-1234"}},
	} {
		b.Run(name, func(b *testing.B) {
			picker := bench.policy.Build(nodes)
			b.ReportAllocs()
			for b.Loop() {
				if picker.Pick(bench.call, all) == nil {
					b.Fatal("no node picked")
				}
			}
		})
	}
}

// BenchmarkReports is a list that changes only in its reports of load, which most policies
// ignore.
func BenchmarkReports(b *testing.B) {
	table, list := NewTable(RingHash()), named(0, 1000)
	table.Update(list)
	for i := 0; b.Loop(); i++ {
		list[i%1000].Load = &tandem.Load{Rate: float64(i)}
		table.Update(list)
	}
}

// BenchmarkBuild is the cost of a change of the list.
func BenchmarkBuild(b *testing.B) {
	weights := make([]int, 1000)
	for i := range weights {
		weights[i] = 1 + i*9
	}
	nodes := weighted(weights...)
	for _, p := range policies() {
		b.Run(p.Name(), func(b *testing.B) {
			for b.Loop() {
				p.Build(nodes)
			}
		})
	}
}

// BenchmarkStats is two processors that count calls of neighbouring instances.
func BenchmarkStats(b *testing.B) {
	nodes := weighted(make([]int, 2)...)
	next := RoundRobin().Build(nodes)
	b.RunParallel(func(pb *testing.PB) {
		s := next.Pick(nil, all).Stats
		for pb.Next() {
			s.Begin()
			s.Done(Now(), false)
		}
	})
}
