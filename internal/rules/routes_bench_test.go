package rules

import (
	"fmt"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/policy"
)

// hundred returns policies of 100 routes, and a call that the last route matches.
func hundred() map[string]struct {
	routes []policy.Route
	call   tandem.Call
} {
	methods, values, both := make([]policy.Route, 100), make([]policy.Route, 100), make([]policy.Route, 100)
	for i := range 100 {
		name, to := fmt.Sprint("route-", i), []policy.Subset{{Version: "1", Weight: new(5)}, {Version: "2", Weight: new(95)}}
		method, user := []string{fmt.Sprintf("Cart%d.Get", i)}, map[string]policy.Text{"user": {Exact: fmt.Sprint("user-", i)}}
		methods[i] = policy.Route{Name: name, Match: policy.Match{Methods: method}, To: to}
		values[i] = policy.Route{Name: name, Match: policy.Match{Methods: []string{"Cart99.*"}, Metadata: user}, To: to}
		both[i] = policy.Route{Name: name, Match: policy.Match{Methods: []string{fmt.Sprintf("Cart%d.*", i%2*99)}, Metadata: map[string]policy.Text{
			"user": user["user"], "tenant": {Exact: fmt.Sprint(i % 10)},
		}}, To: to}
	}
	call := tandem.Call{Method: "Cart99.Get", Metadata: tandem.Metadata{"user": {"user-99"}, "tenant": {"9"}, "trace": {"1"}}, Draw: 1}
	return map[string]struct {
		routes []policy.Route
		call   tandem.Call
	}{"method": {methods, call}, "metadata": {values, call}, "method and two keys": {both, call}}
}

// A route is found without memory, whichever of 100 it is.
func TestRoutesAllocateNothing(t *testing.T) {
	for name, c := range hundred() {
		r := routing(t, Self{}, c.routes...)
		if got := matched(r, &c.call); got != "route-99" {
			t.Fatalf("%s: route %q", name, got)
		}
		picker := r.Balancer.Build(nodesFor(world...))
		usable := func(*balance.Node) bool { return true }
		picker.Pick(&c.call, usable)
		if n := testing.AllocsPerRun(1000, func() { picker.Pick(&c.call, usable) }); n != 0 {
			t.Errorf("%s: a pick allocates %v times", name, n)
		}
	}
}

// BenchmarkRoutes measures what 100 routes add to a pick: the difference from the case none.
func BenchmarkRoutes(b *testing.B) {
	usable := func(*balance.Node) bool { return true }
	run := func(name string, r *Rules, call *tandem.Call) {
		picker := r.Balancer.Build(nodesFor(world...))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				picker.Pick(call, usable)
			}
		})
	}
	for name, c := range hundred() {
		r := routing(b, Self{}, c.routes...)
		run(name, r, &c.call)
		run("none", routing(b, Self{}), &c.call)
		b.Run(name+", match alone", func(b *testing.B) {
			for b.Loop() {
				r.routes.match(&c.call)
			}
		})
	}
}
