package main

import (
	"fmt"
	"time"
)

// suspicion is how long a client may take to send new calls elsewhere: the second
// after which it suspects a server, and as long again for a busy machine.
const suspicion = 2 * time.Second

// silence is client.WithSilence's default.
const silence = 20 * time.Second

// allModes are the variants of tandem: every fail mode, idempotent or not.
func allModes() []string {
	var all []string
	for _, mode := range []string{"failfast", "failover", "failtry", "failsafe", "failback", "broadcast", "fork", "backup"} {
		all = append(all, mode, mode+variantSafe)
	}
	return all
}

// longModes are the variants of the long faults: those that move, and those that don't.
func longModes() []string {
	return []string{"failover" + variantSafe, "backup" + variantSafe, "failover", "failfast", "failtry"}
}

// light is a load far below the capacity of any number of instances.
func light(d time.Duration, variants []string) plan {
	return plan{
		Rate: 100, Duration: d, Deadline: 10 * time.Second,
		Work: 2 * time.Millisecond, Size: 256, Variants: variants,
	}
}

// stopCells stop server 0.
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
			Instances: 3, Load: light(38*time.Second, longModes()), At: 3 * time.Second, Fault: stop(30 * time.Second),
			Judge: movedOrWaited,
		},
		{
			Name: "stop30s-1", Title: "the only server is stopped for 30 s",
			Instances: 1, Load: light(38*time.Second, longModes()), At: 3 * time.Second, Fault: stop(30 * time.Second),
			Judge: noneFailedEarly,
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

// noneFailed is the bar that tandem loses no call.
func noneFailed(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		checks = append(checks, atMost(a.String()+": failed", a.summary(all).Failed, 0))
	}
	return checks
}

// movedOrWaited is the bar of long faults with other instances left: calls that can
// move don't fail, others only if they were sent before the server was suspected, and
// not before their time.
func movedOrWaited(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		movable := a.summary(func(e entry) bool { return moves(e.Variant) })
		late := a.summary(func(e entry) bool { return !moves(e.Variant) && e.at().After(a.began.Add(suspicion)) })
		checks = append(checks,
			atMost(a.String()+": idempotent failed", movable.Failed, 0),
			atMost(a.String()+": others failed that began after suspicion", late.Failed, 0),
			atMost(a.String()+": failed before their time", failedEarly(o.cell, a), 0))
	}
	return checks
}

// noneFailedEarly is the bar of long faults of the only instance.
func noneFailedEarly(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		checks = append(checks, atMost(a.String()+": failed before their time", failedEarly(o.cell, a), 0))
	}
	return checks
}

// failedEarly counts errors before the call's deadline that came before the server had
// been silent for as long as WithSilence says by default.
func failedEarly(c cell, a *armResult) int {
	const slack = 50 * time.Millisecond // a deadline may be seen a little early
	givenUp := a.began.Add(silence - slack)
	return a.summary(func(e entry) bool {
		return !e.ok() && e.took() < c.Load.Deadline-slack && e.end().Before(givenUp)
	}).Failed
}
