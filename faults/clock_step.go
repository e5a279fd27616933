//go:build faultclock

package main

import (
	"time"
	_ "unsafe" // for linkname
)

// wallStep is what time.Now adds to the wall clock, in seconds. clock.sh puts it there.
//
//go:linkname wallStep time.wallStep
var wallStep int64

// stepClock makes the wall clock wrong by d. Go's clock for durations goes on.
func stepClock(d time.Duration) { wallStep = int64(d / time.Second) }
