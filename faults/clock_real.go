//go:build !faultclock

package main

import "time"

// stepClock does nothing: this binary has the machine's clock.
func stepClock(time.Duration) {}
