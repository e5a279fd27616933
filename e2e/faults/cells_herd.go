package main

import (
	"fmt"
	"os/exec"
	"time"
)

const (
	herdSize = 500
	herdAway = 1500 * time.Millisecond // shorter than client.WithWait's default
)

// herdCells returns the cell in which many clients lose their server at the same moment.
func herdCells() []cell {
	load := light(20*time.Second, []string{"failover" + variantSafe})
	load.Rate, load.Clients = 500, herdSize
	return []cell{{
		Name: "herd", Title: fmt.Sprintf("the only server of %d clients is killed and starts again after %v", herdSize, herdAway), Alone: true,
		Instances: 1, Load: load, At: 3 * time.Second, Fault: scatter, Judge: herdReturns,
	}}
}

// scatter kills the server, restarts it, and counts the clients' connection attempts until 8 s
// after the restart.
func scatter(r *rig) error {
	before, err := r.activeOpens()
	if err != nil {
		return err
	}
	r.servers[0].kill()
	r.wait(herdAway)
	if err := r.restartKilled(0); err != nil {
		return err
	}
	back := time.Now()
	r.wait(8 * time.Second)
	after, err := r.activeOpens()
	if err != nil {
		return err
	}
	r.result.opened = after - before
	r.provef("server killed for %v; %d connections attempted by %d clients", round(back.Sub(r.result.began)), r.result.opened, herdSize)
	if r.result.opened < herdSize {
		return fmt.Errorf("only %d connections were attempted, but %d clients lost theirs", r.result.opened, herdSize)
	}
	return nil
}

// activeOpens returns how many TCP connections the client's host has tried to open so far.
func (r *rig) activeOpens() (int, error) {
	out, err := exec.Command("ip", "netns", "exec", r.net.client, "nstat", "-asz", "TcpActiveOpens").Output() //nolint:gosec // our names
	if err != nil {
		return 0, fmt.Errorf("nstat: %w", err)
	}
	return sumAfter(string(out), "TcpActiveOpens"), nil
}

// herdReturns is the bar that no call fails, that calls are fast again (at most 500 ms) 5 s
// after the restart, and that a client makes at most 15 connection attempts on average.
func herdReturns(o *outcome) []check {
	checks := noneFailed(o)
	for _, a := range o.tandems() {
		back := a.ended.Add(-3 * time.Second) // the fault ends 8 s after the restart
		late := a.summary(func(e entry) bool { return e.at().After(back) })
		checks = append(checks,
			atLeast(a.String()+": calls that began 5 s after the restart or later", late.Made, 1000),
			notLonger(a.String()+": slowest of those", late.Max, 500*time.Millisecond, 1),
			atMost(a.String()+": connections attempted", a.opened, 15*herdSize))
	}
	return checks
}
