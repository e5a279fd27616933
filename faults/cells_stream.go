package main

import (
	"fmt"
	"time"
)

const stalledStreams = 1000

// streamCells have streams beside small calls, on the same connection.
func streamCells() []cell {
	load := light(15*time.Second, nil)
	load.Rate, load.Stalls = 200, stalledStreams
	return []cell{{
		Name: "stalls", Title: "a client does not read its 1,000 streams, on which the server sends; small calls go on beside them",
		Systems: []string{sysTandem, sysGRPC}, Alone: true, Instances: 1, Usage: true, Load: load, At: 3 * time.Second, Fault: countStalled, Judge: flowsBeside,
	}}
}

// countStalled shows that the server has a goroutine for each stream.
func countStalled(r *rig) error {
	now, err := r.serverUsage()
	if err != nil {
		return err
	}
	more := now.goroutines - r.result.server.before.goroutines
	r.provef("%d goroutines more at the server", more)
	if more < stalledStreams {
		return fmt.Errorf("the server has only %d goroutines more than before: %d streams should be open", more, stalledStreams)
	}
	return nil
}

// flowsBeside is the bar that no small call fails, that they are little slower than
// without the streams, and that the streams leave nothing behind.
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
