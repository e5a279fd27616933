package main

import (
	"fmt"
	"slices"
	"time"
)

// crashCells returns cells that kill, restart or slow down one of several servers.
func crashCells(fast bool) []cell {
	const kills = 60
	variants := []string{"failover" + variantSafe, "failover", "failfast"}
	crash := light(kills*time.Second+4*time.Second, variants)
	crash.Work = 50 * time.Millisecond
	rounds := 10
	if fast {
		rounds = 1
	}
	rolling := light(time.Duration(rounds)*30*time.Second, append(variants, variantStream)) // each server waits for its streams
	rolling.Rate = 200
	slow := light(15*time.Second, variants)
	slow.Rate, slow.Work = 200, 5*time.Millisecond
	return []cell{
		{
			Name: "kill9", Title: fmt.Sprintf("one of three servers is killed each second, %d times, and started again", kills),
			Instances: 3, Load: crash, At: time.Second, Fault: killEach(kills), Judge: crashed(kills),
		},
		{
			Name: "rolling-10", Title: "ten servers are restarted gracefully, one after the other, ten rounds (one with -fast), under calls and streams of 2 s",
			Instances: 10, Load: rolling, At: 2 * time.Second, Judge: noneFailed,
			Fault: func(r *rig) error { return r.restartAll(rounds, 10*time.Second) },
		},
		{
			Name: "one-slow", Title: "one of ten servers takes fifty times as long as the others", Instances: 10, Load: slow, Slow: 50,
			Proof: proveSlow, Judge: avoidsSlow,
		},
	}
}

// killEach kills one server each second, in turn, and starts it again 300 ms later.
func killEach(times int) func(*rig) error {
	return func(r *rig) error {
		for k := range times {
			next := time.Now().Add(time.Second)
			i := k % len(r.servers)
			r.servers[i].kill()
			r.wait(300 * time.Millisecond)
			if err := r.restartKilled(i); err != nil {
				return err
			}
			r.wait(time.Until(next))
		}
		r.provef("%d processes killed", times)
		return nil
	}
}

// crashed is the bar that no idempotent call fails, that at most three other calls fail for
// each kill (those that the killed server was running), and that every server runs calls
// again.
func crashed(kills int) func(o *outcome) []check {
	return func(o *outcome) []check {
		var checks []check
		for _, a := range o.tandems() {
			safe := a.summary(func(e entry) bool { return isSafe(e.Variant) })
			others := a.summary(func(e entry) bool { return !isSafe(e.Variant) })
			checks = append(checks,
				atMost(a.String()+": idempotent calls failed", safe.Failed, 0),
				atMost(a.String()+": other calls failed, at most three for each kill", others.Failed, 3*kills))
			for i := range o.cell.Instances {
				checks = append(checks, atLeast(fmt.Sprintf("%s: calls that server %d ran after its last kill", a, i), ranAfter(a, i, a.ended), 1))
			}
		}
		return checks
	}
}

// slowShare returns the share of calls, in thousandths, that server 0 ran from 5 s after the
// start on.
func slowShare(a *armResult) int {
	all, slow := 0, 0
	for _, runs := range a.ran {
		for _, e := range runs {
			if e.at.Before(a.start.Add(5 * time.Second)) {
				continue
			}
			all++
			if e.server == 0 {
				slow++
			}
		}
	}
	return 1000 * slow / max(1, all)
}

func proveSlow(r *rig) error {
	r.provef("server 0 sleeps %d times as long", r.cell.Slow)
	return nil
}

// slowestOf returns the duration of the slowest successful call that a server ran.
func slowestOf(a *armResult, server int) time.Duration {
	return a.summary(func(e entry) bool {
		return slices.ContainsFunc(a.ran[e.ID], func(x execution) bool { return x.server == server })
	}).Max
}

func avoidsSlow(o *outcome) []check {
	checks := noneFailed(o)
	least := time.Duration(o.cell.Slow) * o.cell.Load.Work
	for _, a := range o.tandems() {
		took := slowestOf(a, 0)
		checks = append(checks, check{a.String() + ": slowest call of the slow server", fmt.Sprintf("≥ %v", least), fmt.Sprint(round(took)), took >= least})
		checks = append(checks, atMost(a.String()+": of 1,000 calls that began after 5 s, those at the slow server", slowShare(a), 20))
	}
	return checks
}
