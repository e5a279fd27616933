package main

import (
	"fmt"
	"time"
)

// restartCells returns cells that shut servers down gracefully and start them again.
func restartCells() []cell {
	load := func(d time.Duration) plan {
		return plan{Rate: 100, Duration: d, Deadline: 5 * time.Second, Work: 2 * time.Millisecond, Size: 256}
	}
	return []cell{
		{
			Name: "restart-1", Title: "the only server is restarted gracefully, within a second", Short: true,
			Instances: 1, Load: load(8 * time.Second), At: 3 * time.Second, Judge: noneFailed,
			Fault: func(r *rig) error { return r.restart(0, time.Second) },
		},
		{
			Name: "rolling-3", Title: "each of three servers is restarted gracefully, one after the other", Short: true,
			Instances: 3, Load: load(12 * time.Second), At: 2 * time.Second, Judge: noneFailed,
			Fault: func(r *rig) error { return r.restartAll(1, 5*time.Second) },
		},
		{
			Name: "balanced-3", Title: "three servers behind a TCP load balancer are restarted gracefully; connections live at most 2 s (rpcx: no limit)", Short: true,
			Instances: 3, Load: load(12 * time.Second), At: 3 * time.Second, MaxAge: 2 * time.Second, Balanced: true,
			Fault: func(r *rig) error { return r.restartAll(1, 5*time.Second) }, Judge: spreads,
		},
	}
}

// spreads is the bar that no call fails, and that all servers run calls: the client opens new
// connections when the old ones reach their maximum age.
func spreads(o *outcome) []check {
	checks := noneFailed(o)
	for _, a := range o.tandems() {
		used := a.serversUsed(func(time.Time) bool { return true })
		checks = append(checks, atLeast(a.String()+": servers that ran calls", used, o.cell.Instances))
	}
	return checks
}

// restart shuts a server down gracefully and starts it again at once. It fails if that takes
// longer than limit. The limit is for tandem only: rpcx checks only once a second whether it
// is idle.
func (r *rig) restart(i int, limit time.Duration) error {
	began := time.Now()
	if err := r.servers[i].terminate(); err != nil {
		return fmt.Errorf("server %d did not shut down gracefully: %w", i, err)
	}
	down := time.Now()
	if err := r.restartKilled(i); err != nil {
		return err
	}
	took := time.Since(began)
	r.provef("server %d: %v to shut down, %v to listen", i, round(down.Sub(began)), round(time.Since(down)))
	if took > limit && r.arm.System == sysTandem {
		return fmt.Errorf("the restart took %v, want %v at most", round(took), limit)
	}
	return nil
}

// restartAll restarts every server in each round, and waits 1 s after each restart. It returns
// when all restarts are done or the load ends. It fails if tandem has done fewer than 9/10 of
// them.
func (r *rig) restartAll(rounds int, limit time.Duration) error {
	n, want := 0, rounds*len(r.servers)
	for n < want && time.Since(r.result.start) < r.plan.Duration {
		if err := r.restart(n%len(r.servers), limit); err != nil {
			return err
		}
		n++
		r.wait(time.Second)
	}
	r.provef("%d of %d restarts under load", n, want)
	if n < want*9/10 && r.arm.System == sysTandem {
		return fmt.Errorf("only %d of %d restarts were under load", n, want)
	}
	return nil
}

// restartKilled starts a server again whose process has ended.
func (r *rig) restartKilled(i int) error {
	s, err := r.startServer(i)
	if err == nil {
		r.servers[i] = s
	}
	return err
}
