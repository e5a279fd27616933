package balance

import (
	"fmt"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// Run with -cpu 1,2. The goal is 30 ns a pick, whatever the number of nodes.
func BenchmarkPick(b *testing.B) {
	for _, p := range policies() {
		for _, n := range []int{10, 100, 1000} {
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
	picker, call := p.Build(nodes), new(tandem.Call)
	usable := func(n *Node) bool { return n.Stats != nil }
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if picker.Pick(call, usable) == nil {
				b.Error("nobody")
			}
		}
	})
}

// Building happens on every change of the list.
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

// Two processors that count calls of neighbouring instances.
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
