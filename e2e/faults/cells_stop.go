package main

import (
	"fmt"
	"slices"
	"time"
)

// suspicion is how long a client may take until it sends new calls to other servers: it
// suspects a silent server after 1 s, and a busy machine may need as long again.
const suspicion = 2 * time.Second

// silence is the default of Silence in client.Connections.
const silence = 20 * time.Second

// allModes returns the variants of tandem: every fail mode, with and without idempotent calls.
func allModes() []string {
	var all []string
	for _, mode := range []string{"failfast", "failover", "failtry", "failsafe", "failback", "broadcast", "fork", "backup"} {
		all = append(all, mode, mode+variantSafe)
	}
	return all
}

// longModes returns the variants for long faults: those for which moves is true, and others.
func longModes() []string {
	return []string{"failover" + variantSafe, "backup" + variantSafe, "failover", "failfast", "failtry"}
}

// light returns a load far below the capacity, even of a single instance.
func light(d time.Duration, variants []string) plan {
	return plan{
		Rate: 100, Duration: d, Deadline: 10 * time.Second,
		Work: 2 * time.Millisecond, Size: 256, Variants: variants,
	}
}

// long returns the load for long faults. Each server has several calls in flight at any time,
// so some calls are in flight when the fault begins.
func long(d time.Duration) plan {
	p := light(d, longModes())
	p.Rate, p.Work = 300, 50*time.Millisecond
	return p
}

// stopCells returns cells that stop server 0 with SIGSTOP.
func stopCells() []cell {
	stop := func(d time.Duration) func(*rig) error {
		return func(r *rig) error { return r.pauseServer(0, d) }
	}
	return []cell{
		{
			Name: "stop3s-3", Title: "one of three servers is stopped for 3 s, every fail mode", Short: true,
			Instances: 3, Load: light(9*time.Second, allModes()), At: 3 * time.Second, Fault: stop(3 * time.Second),
			Judge: noneFailed,
		},
		{
			Name: "stop3s-1", Title: "the only server is stopped for 3 s, every fail mode", Short: true,
			Instances: 1, Load: light(9*time.Second, allModes()), At: 3 * time.Second, Fault: stop(3 * time.Second),
			Judge: noneFailed,
		},
		{
			Name: "stop30s-3", Title: "one of three servers is stopped for 30 s",
			Instances: 3, Load: long(38 * time.Second), At: 3 * time.Second, Fault: stop(30 * time.Second),
			Paired: true, MaxRounds: 1, Judge: movedOrWaited,
		},
		{
			Name: "stop30s-1", Title: "the only server is stopped for 30 s",
			Instances: 1, Load: long(38 * time.Second), At: 3 * time.Second, Fault: stop(30 * time.Second),
			Paired: true, MaxRounds: 1, Judge: noneFailedEarly,
		},
	}
}

// pauseServer stops a server for d.
func (r *rig) pauseServer(i int, d time.Duration) error {
	s := r.servers[i]
	if err := s.pause(); err != nil {
		return err
	}
	r.provef("process %d in state T", s.cmd.Process.Pid)
	r.wait(d)
	if err := s.awaitState('T'); err != nil {
		return fmt.Errorf("the server did not stay stopped: %w", err)
	}
	return s.resume()
}

// noneFailed is the bar that no call of tandem fails.
func noneFailed(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		checks = append(checks, atMost(a.String()+": failed", a.summary(all).Failed, 0))
	}
	return checks
}

// movedOrWaited is the bar for long faults of one of several instances. Calls that can move to
// another instance don't fail. Other calls fail only if they began before the server was
// suspected, and not earlier than failedEarly allows. Server 0 runs calls again after the
// fault.
func movedOrWaited(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		movable := a.summary(func(e entry) bool { return moves(e.Variant) })
		late := a.summary(func(e entry) bool { return !moves(e.Variant) && e.at().After(a.began.Add(suspicion)) })
		checks = append(checks,
			atMost(a.String()+": idempotent calls failed", movable.Failed, 0),
			atMost(a.String()+": other calls failed that began after suspicion", late.Failed, 0),
			atMost(a.String()+": failed too early", failedEarly(o.cell, a), 0),
			atMost(a.String()+": failed that ended before the fault", endedBefore(a), 0),
			atLeast(a.String()+": calls affected by the fault: failed, or took 500 ms or more", metFault(a), 1),
			atLeast(a.String()+": calls that server 0 ran after the fault", ranAfter(a, 0, a.ended), 1))
	}
	return checks
}

// metFault counts the calls that the fault affected: calls that returned after it began and
// failed or took at least 500 ms. Without such calls the arm proves nothing.
func metFault(a *armResult) int {
	return a.summary(func(e entry) bool {
		return e.end().After(a.began) && (!e.ok() || e.took() >= 500*time.Millisecond)
	}).Made
}

// endedBefore counts the calls that failed before the fault began.
func endedBefore(a *armResult) int {
	return a.summary(func(e entry) bool { return !e.ok() && e.end().Before(a.began) }).Failed
}

// ranAfter counts the calls that a server ran and that the client began after a given time. It
// uses the client's time, because a stopped server runs older requests from its buffers later.
func ranAfter(a *armResult, server int, after time.Time) int {
	n := 0
	for _, e := range a.entries {
		if e.at().After(after) && slices.ContainsFunc(a.ran[e.ID], func(x execution) bool { return x.server == server }) {
			n++
		}
	}
	return n
}

// noneFailedEarly is the bar for long faults of the only instance. No call fails earlier than
// failedEarly allows, and no call fails that begins after the fault.
func noneFailedEarly(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		late := a.summary(func(e entry) bool { return e.at().After(a.ended) })
		checks = append(checks,
			atMost(a.String()+": failed too early", failedEarly(o.cell, a), 0),
			atMost(a.String()+": failed that ended before the fault", endedBefore(a), 0),
			atLeast(a.String()+": calls that began after the fault", late.Made, 100),
			atMost(a.String()+": failed of those", late.Failed, 0))
	}
	return checks
}

// failedEarly counts the calls that failed before their deadline and before the server had
// been silent for the default of Silence.
func failedEarly(c cell, a *armResult) int {
	const slack = 50 * time.Millisecond // a deadline may be noticed a little early
	givenUp := a.began.Add(silence - slack)
	return a.summary(func(e entry) bool {
		return !e.ok() && e.took() < c.Load.Deadline-slack && e.end().Before(givenUp)
	}).Failed
}
