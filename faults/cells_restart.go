package main

import (
	"fmt"
	"time"
)

// restartCells end servers in good order and start them again.
func restartCells() []cell {
	load := func(d time.Duration) plan {
		return plan{Rate: 100, Duration: d, Deadline: 5 * time.Second, Work: 2 * time.Millisecond, Size: 256}
	}
	return []cell{
		{
			Name: "restart-1", Title: "the only server is restarted in good order, within a second", Short: true,
			Instances: 1, Load: load(8 * time.Second), At: 3 * time.Second, Judge: noneFailed,
			Fault: func(r *rig) error { return r.restart(0, time.Second) },
		},
		{
			Name: "rolling-3", Title: "each of three servers is restarted in good order, one after the other", Short: true,
			Instances: 3, Load: load(12 * time.Second), At: 2 * time.Second, Judge: noneFailed,
			Fault: func(r *rig) error { return r.restartAll(1, 5*time.Second) },
		},
		{
			Name: "balanced-3", Title: "three servers behind a balancer of connections, with a maximum age of 2 s (rpcx has none), are restarted in good order", Short: true,
			Instances: 3, Load: load(12 * time.Second), At: 3 * time.Second, MaxAge: 2 * time.Second, Balanced: true,
			Fault: func(r *rig) error { return r.restartAll(1, 5*time.Second) }, Judge: spreads,
		},
	}
}

// spreads is the bar that no call fails, and that connections of limited age reach all servers.
func spreads(o *outcome) []check {
	checks := noneFailed(o)
	for _, a := range o.tandems() {
		used := a.serversUsed(func(time.Time) bool { return true })
		checks = append(checks, atLeast(a.String()+": servers that ran calls", used, o.cell.Instances))
	}
	return checks
}

// restart ends a server in good order and starts it again at once. It fails if that
// takes tandem longer than limit; rpcx looks whether it is idle once a second.
func (r *rig) restart(i int, limit time.Duration) error {
	began := time.Now()
	if err := r.servers[i].terminate(); err != nil {
		return fmt.Errorf("server %d did not end in good order: %w", i, err)
	}
	down := time.Now()
	if err := r.restartKilled(i); err != nil {
		return err
	}
	took := time.Since(began)
	r.provef("server %d: %v to end, %v to listen", i, round(down.Sub(began)), round(time.Since(down)))
	if took > limit && r.arm.System == sysTandem {
		return fmt.Errorf("the restart took %v, want %v at most", round(took), limit)
	}
	return nil
}

// restartAll restarts every server, a second apart, in so many rounds. It ends with the
// load, by when tandem must have done nine tenths.
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

// restartKilled starts a server again that has ended.
func (r *rig) restartKilled(i int) error {
	s, err := r.startServer(i)
	if err == nil {
		r.servers[i] = s
	}
	return err
}
