//go:build faultclock

package main

import (
	"time"
	_ "unsafe" // for linkname
)

// wallStep is the number of seconds that time.Now adds to the wall clock. clock.sh adds the
// variable to package time.
//
//go:linkname wallStep time.wallStep
var wallStep int64

// stepClock sets the wall clock to the true time plus d. The monotonic clock is not changed.
func stepClock(d time.Duration) { wallStep = int64(d / time.Second) }
