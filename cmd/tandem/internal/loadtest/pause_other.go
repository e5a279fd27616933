//go:build !linux

package loadtest

import "time"

// precisePause returns a function that sleeps for a short time.
func precisePause() func(time.Duration) { return time.Sleep }
