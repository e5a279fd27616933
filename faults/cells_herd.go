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

// herdCells have many clients that lose their server at the same moment.
func herdCells() []cell {
	load := light(20*time.Second, []string{"failover" + variantSafe})
	load.Rate, load.Clients = 500, herdSize
	return []cell{{
		Name: "herd", Title: fmt.Sprintf("the only server of %d clients is killed and starts again after %v", herdSize, herdAway), Alone: true,
		Instances: 1, Load: load, At: 3 * time.Second, Fault: scatter, Judge: herdReturns,
	}}
}

// scatter kills the server, and counts how often the clients try to connect until 8 s
// after it is back.
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
		return fmt.Errorf("only %d connections were attempted: %d clients lost theirs", r.result.opened, herdSize)
	}
	return nil
}

// activeOpens returns how many TCP connections the client's host has begun.
func (r *rig) activeOpens() (int, error) {
	out, err := exec.Command("ip", "netns", "exec", r.net.client, "nstat", "-asz", "TcpActiveOpens").Output() //nolint:gosec // our names
	if err != nil {
		return 0, fmt.Errorf("nstat: %w", err)
	}
	return sumAfter(string(out), "TcpActiveOpens"), nil
}

// herdReturns is the bar that idempotent calls wait for the server, that no call is slow
// any more 5 s after it is back, and that a client tries to connect fifteen times at most.
func herdReturns(o *outcome) []check {
	checks := noneFailed(o)
	for _, a := range o.tandems() {
		back := a.ended.Add(-3 * time.Second) // 5 of the 8 s
		late := a.summary(func(e entry) bool { return e.at().After(back) })
		checks = append(checks,
			atLeast(a.String()+": calls that began 5 s after the server was back", late.Made, 1000),
			notLonger(a.String()+": slowest of those", late.Max, 500*time.Millisecond, 1),
			atMost(a.String()+": connections attempted", a.opened, 15*herdSize))
	}
	return checks
}
