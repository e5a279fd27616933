package main

import (
	"fmt"
	"time"
)

// The work of the handlers of an overloaded server, see burden.
const (
	burdenCPU      = "cpu"      // use a processor for 1 ms; check the context every 0.1 ms
	burdenPool     = "pool"     // hold one of 16 pooled connections for 50 ms; wait for one until the context ends
	burdenIgnorant = "ignorant" // the same as pool, but ignore the context
)

const (
	overloadAfter   = 15 * time.Second // length of the low load after the overload
	overloadRecover = 5 * time.Second  // time after the overload from which calls must succeed again
	overloadLow     = 0.9              // the low load, as a share of the capacity
	poolSize        = 16
	poolHold        = 50 * time.Millisecond
	measuring       = 3 * time.Second // length of the capacity measurement
)

// overloadCells returns cells that offer a server at least as much load as it can handle. The
// server has one processor and the client has the others.
func overloadCells(fast bool) []cell {
	last := time.Minute
	if fast {
		last = 10 * time.Second
	}
	var cells []cell
	for _, kind := range []struct {
		burden, what string
		least        int // bar of the goodput, in percent of the capacity
	}{
		{burdenCPU, "handlers use a processor for 1 ms", 85},
		{burdenPool, "handlers hold one of 16 connections for 50 ms", 85},
		{burdenIgnorant, "handlers hold one of 16 connections for 50 ms and ignore deadlines", 60},
	} {
		for _, times := range []float64{1, 3, 10} {
			cells = append(cells, cell{
				Name:  fmt.Sprintf("overload-%s-%g", kind.burden, times),
				Title: fmt.Sprintf("%g times a server's capacity for %v: %s", times, last, kind.what), Alone: true, Pinned: true,
				Instances: 1, Beside: sysOpen, Burden: kind.burden,
				Load:  plan{Overload: times, Clients: 100, Duration: last, Deadline: time.Second, Variants: []string{variantDefault}},
				Proof: (*rig).countRefused, Judge: func(o *outcome) []check { return goodputHolds(o, kind.least) },
			})
		}
	}
	cells = append(cells, overOneConnection(last))
	for _, times := range []float64{1, 3, 10} {
		cells = append(cells, sharedCells(plan{
			Overload: times, Clients: 100, Duration: last, Deadline: time.Second, Variants: []string{variantDefault},
		})...)
	}
	return cells
}

// overOneConnection returns a cell whose callers share one connection, so that one reader
// goroutine of the server reads all requests.
func overOneConnection(last time.Duration) cell {
	return cell{
		Name:  "overload-one",
		Title: fmt.Sprintf("3 times a server's capacity for %v, over one connection: handlers use a processor for 1 ms", last), Alone: true, Pinned: true,
		Instances: 1, Beside: sysOpen, Burden: burdenCPU,
		Load:  plan{Overload: 3, Clients: 1, Duration: last, Deadline: time.Second, Variants: []string{variantDefault}},
		Judge: func(o *outcome) []check { return goodputHolds(o, 85) }, //nolint:mnd // as with many connections
	}
}

// sharedCells returns cells in which an overload may affect calls that do not cause it: calls
// of another method, calls of other callers, and servers in a chain.
func sharedCells(overload plan) []cell {
	times, last := overload.Overload, overload.Duration
	methods, greedy, chain := overload, overload, overload
	methods.Beside = beside{Variant: variantQuick, Rate: 200}
	greedy.Variants, greedy.Clients, greedy.Sources = []string{variantGreedy}, sources, true
	greedy.Beside = beside{Variant: variantDefault, Share: 0.09 * (sources - 1)}
	return []cell{
		{
			Name:  fmt.Sprintf("overload-methods-%g", times),
			Title: fmt.Sprintf("%g times the capacity of a method (handlers hold one of 16 connections for 50 ms) for %v, in parallel with a quick method", times, last), Alone: true, Pinned: true,
			Instances: 1, Beside: sysOpen, Burden: burdenPool, Load: methods, Judge: besideHolds,
		},
		{
			Name:  fmt.Sprintf("overload-greedy-%g", times),
			Title: fmt.Sprintf("one of ten callers offers %g times a server's capacity for %v, and each of the others 9 %% of it", times, last), Alone: true, Pinned: true,
			Instances: 1, Beside: sysOpen, Burden: burdenPool, Load: greedy, Judge: besideHolds,
		},
		{
			Name:  fmt.Sprintf("overload-chain-%g", times),
			Title: fmt.Sprintf("%g times the capacity of the last server in a chain of three, for %v", times, last), Alone: true, Pinned: true,
			Instances: 3, Chain: true, Beside: sysOpen, Burden: burdenPool, Load: chain, Proof: (*rig).countRefused, Judge: fewAttempts,
		},
	}
}

// besideHolds is the bar that 95 % of the calls that do not cause the overload succeed during
// it, and 98 % of all calls from overloadRecover after it on.
func besideHolds(o *outcome) (checks []check) {
	isBeside := func(e entry) bool { return e.Variant == o.cell.Load.Beside.Variant }
	for _, a := range o.arms {
		if a.Control || a.invalid != nil {
			continue
		}
		s := a.summary(func(e entry) bool { return isBeside(e) && e.at().Before(a.ended) })
		good := 100 * s.OK / max(1, s.Made)
		if a.System != sysTandem {
			checks = append(checks, a.shown("percent of the other calls that succeed", good))
			continue
		}
		checks = append(checks,
			atLeast(a.String()+": calls that do not cause the overload", s.Made, 1000),
			atLeast(a.String()+": percent of those that succeed", good, 95),
			atLeast(fmt.Sprintf("%v: percent of the calls that succeed from %v after", a, overloadRecover), a.recovered(), 98))
	}
	return checks
}

// fewAttempts is the bar that the last server of a chain gets at most 1.1 times as many
// requests as calls are made, and that 98 % of the calls succeed from overloadRecover after
// the overload on.
func fewAttempts(o *outcome) (checks []check) {
	for _, a := range o.arms {
		if a.Control || a.invalid != nil {
			continue
		}
		attempts := a.refused
		for _, runs := range a.ran {
			attempts += len(runs)
		}
		made := max(1, len(a.entries))
		percent := (100*attempts + made - 1) / made
		if a.System != sysTandem {
			checks = append(checks, a.shown("attempts that ran at the last server, percent of the calls", percent))
			continue
		}
		checks = append(checks,
			atMost(a.String()+": attempts at the last server, percent of the calls", percent, 110),
			atLeast(fmt.Sprintf("%v: percent of the calls that succeed from %v after", a, overloadRecover), a.recovered(), 98))
	}
	return checks
}

// goodputHolds has two bars: during the overload the goodput is a share of the capacity, or of
// what is offered if that is less, of least percent or more; and from overloadRecover after the
// overload on, 98 % of the calls succeed.
func goodputHolds(o *outcome, least int) (checks []check) {
	for _, a := range o.arms {
		if a.Control || a.invalid != nil {
			continue
		}
		good, recovered := a.goodput(), a.recovered()
		if a.System != sysTandem {
			checks = append(checks, a.shown("answered in time, percent of the capacity", good))
			continue
		}
		checks = append(checks,
			atLeast(a.String()+": goodput, percent of the capacity", good, min(least, int(100*o.cell.Load.Overload))),
			atLeast(fmt.Sprintf("%v: percent of the calls that succeed from %v after", a, overloadRecover), recovered, 98))
	}
	return checks
}

// shown returns a check that always passes. It shows a figure of a system that has no bar,
// with that system's goodput and recovered.
func (r *armResult) shown(what string, got int) check {
	return check{r.String() + ": " + what + "; goodput; percent of the calls that succeed after the overload", "none", fmt.Sprintf("%d; %d; %d", got, r.goodput(), r.recovered()), true}
}

// goodput returns how many calls that were due before the end of the overload succeeded, in
// percent of the server's capacity in that time. It does not count calls of the quick method.
func (r *armResult) goodput() int {
	s := r.summary(func(e entry) bool { return e.at().Before(r.ended) && e.Variant != variantQuick })
	return int(100 * float64(s.OK) / (r.capacity * r.ended.Sub(r.began).Seconds()))
}

// recovered returns how many of the calls that were due later than overloadRecover after the
// overload succeeded, in percent.
func (r *armResult) recovered() int {
	s := r.summary(func(e entry) bool { return e.at().After(r.ended.Add(overloadRecover)) })
	if s.Made == 0 {
		return 0
	}
	return 100 * s.OK / s.Made
}
