package main

import (
	"fmt"
	"time"
)

const stalledStreams = 1000

// streamCells returns the cell with streams and small calls on the same connection.
func streamCells() []cell {
	load := light(15*time.Second, nil)
	load.Rate, load.Stalls = 200, stalledStreams
	return []cell{{
		Name: "stalls", Title: "a client does not read from its 1,000 streams, to which the server sends; small calls go on in parallel",
		Systems: []string{sysTandem, sysGRPC}, Alone: true, Instances: 1, Usage: true, Load: load, At: 3 * time.Second, Fault: countStalled, Judge: flowsBeside,
	}}
}

// countStalled proves that the server has at least one goroutine for each stream.
func countStalled(r *rig) error {
	now, err := r.serverUsage()
	if err != nil {
		return err
	}
	more := now.goroutines - r.result.server.before.goroutines
	r.provef("%d more goroutines at the server", more)
	if more < stalledStreams {
		return fmt.Errorf("the server has only %d more goroutines than before: %d streams should be open", more, stalledStreams)
	}
	return nil
}

// flowsBeside is the bar that no small call fails, that the p99 of small calls is at most 50
// ms above that of tandem's control arm, and that the streams leak nothing.
func flowsBeside(o *outcome) []check {
	checks := noLeak(o)
	var control time.Duration
	for _, a := range o.arms {
		if a.Control && a.System == sysTandem {
			control = a.summary(all).P99
		}
	}
	for _, a := range o.tandems() {
		checks = append(checks, notLonger(a.String()+": p99 of small calls", a.summary(all).P99, control+50*time.Millisecond, 1))
	}
	return checks
}
