//go:build !faultclock

package main

import "time"

// stepClock does nothing: this binary uses the machine's clock.
func stepClock(time.Duration) {}
