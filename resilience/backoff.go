package resilience

import "time"

// Backoff is the pause between attempts: exponential, with full jitter (M. Brooker,
// "Exponential Backoff And Jitter", AWS Architecture Blog, 2015), so that clients that failed
// together don't retry together. It is a value, safe for concurrent use.
type Backoff struct {
	First time.Duration // ceiling of the first pause; it doubles with each failure
	Most  time.Duration // ceiling of every pause
}

// Pause returns how long to wait after failures attempts have failed before the last one:
// chance times the ceiling, plus 1 ms. chance is from 0 to below 1; the caller draws it evenly.
func (b Backoff) Pause(failures int, chance float64) time.Duration {
	ceiling := b.Most
	if b.First <= b.Most>>failures {
		ceiling = b.First << failures
	}
	return time.Duration(chance*float64(ceiling)) + time.Millisecond
}
