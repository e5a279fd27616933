package main

import (
	"fmt"
	"time"
)

// What the handlers of an overloaded server do.
const (
	burdenCPU      = "cpu"      // use a processor for a millisecond, and look at the context between
	burdenPool     = "pool"     // hold one of 16 connections for 50 ms, and wait for one until the context ends
	burdenIgnorant = "ignorant" // the same, without looking at the context
)

const (
	overloadAfter   = 15 * time.Second // load below the capacity behind the overload
	overloadRecover = 5 * time.Second  // after which calls must succeed again
	overloadLow     = 0.9              // of the capacity
	poolSize        = 16
	poolHold        = 50 * time.Millisecond
	measuring       = 3 * time.Second // the capacity
)

// overloadCells offer a server more than it can do. It has one processor, and its clients the
// others.
func overloadCells(fast bool) []cell {
	last := time.Minute
	if fast {
		last = 10 * time.Second
	}
	var cells []cell
	for _, kind := range []struct {
		burden, what string
		least        int // percent of the capacity
	}{
		{burdenCPU, "handlers use a processor for 1 ms", 85},
		{burdenPool, "handlers hold one of 16 connections for 50 ms", 85},
		{burdenIgnorant, "the same, and ignore their deadlines", 60},
	} {
		for _, times := range []float64{1, 3, 10} {
			cells = append(cells, cell{
				Name:  fmt.Sprintf("overload-%s-%g", kind.burden, times),
				Title: fmt.Sprintf("%g times what a server can do, for %v: %s", times, last, kind.what), Alone: true, Pinned: true,
				Instances: 1, Beside: sysOpen, Burden: kind.burden,
				Load:  plan{Overload: times, Clients: 100, Duration: last, Deadline: time.Second, Variants: []string{variantDefault}},
				Judge: func(o *outcome) []check { return goodputHolds(o, kind.least) },
			})
		}
	}
	return cells
}

// goodputHolds is the bar that calls are answered in time at the rate of the capacity, as far
// as they are offered, during the overload, and all of them again soon after.
func goodputHolds(o *outcome, least int) (checks []check) {
	for _, a := range o.arms {
		if a.Control || a.invalid != nil {
			continue
		}
		good, recovered := a.goodput(), a.recovered()
		if a.System != sysTandem {
			checks = append(checks, check{a.String() + ": goodput; calls that succeed soon after", "none", fmt.Sprintf("%d %%; %d %%", good, recovered), true})
			continue
		}
		checks = append(checks,
			atLeast(a.String()+": goodput, percent of the capacity", good, min(least, int(100*o.cell.Load.Overload))),
			atLeast(fmt.Sprintf("%v: percent of the calls that succeed from %v after", a, overloadRecover), recovered, 98))
	}
	return checks
}

// goodput returns how many calls that were due in the overload succeeded, in percent of what
// the server can do in that time.
func (r *armResult) goodput() int {
	s := r.summary(func(e entry) bool { return e.at().Before(r.ended) })
	return int(100 * float64(s.OK) / (r.capacity * r.ended.Sub(r.began).Seconds()))
}

// recovered returns how many of the calls that were due some time after it did, in percent.
func (r *armResult) recovered() int {
	s := r.summary(func(e entry) bool { return e.at().After(r.ended.Add(overloadRecover)) })
	if s.Made == 0 {
		return 0
	}
	return 100 * s.OK / s.Made
}
