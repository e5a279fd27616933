package client

import (
	"cmp"
	"time"
)

// Throttle are the constants by which a client holds back calls of a method to an instance that
// refuses most of them; see [WithThrottle]. Zero fields have their defaults.
type Throttle struct {
	Sent     float64       // calls sent for each call that the instance accepts; 2 by default, 1 at least
	Accepted int           // calls that are assumed to be accepted before the first refusal; 10 by default
	Fades    time.Duration // time after which a call counts for 1/e; 1 s by default
	Probe    time.Duration // time without a call after which one is sent in any case; 1 s by default
	Ends     time.Duration // time after the last refusal when throttling ends; 30 s by default
	Pause    time.Duration // RetryAfter of a call that is not sent; 100 ms by default
}

// WithThrottle sets how the client holds back calls of a method to an instance that refuses
// most of them; nil means not at all. The zero Throttle is the default: two calls are sent for
// each that the instance accepts, and one a second in any case. The others fail in the client,
// with ResourceExhausted and NotExecuted. It ends when a response says that no call waits at
// the instance.
func WithThrottle(t *Throttle) Option {
	return func(o *options) {
		o.given.Add("WithThrottle")
		if o.throttle = nil; t != nil {
			constants := *t
			o.throttle = constants.fill()
			o.want(o.throttle.isValid(), "WithThrottle", *t, "nil, for no throttle, or positive fields, and Sent 1 at least")
		}
	}
}

// fill gives zero fields their defaults.
func (t *Throttle) fill() *Throttle {
	t.Sent, t.Accepted = cmp.Or(t.Sent, 2), cmp.Or(t.Accepted, 10)
	t.Fades, t.Probe = cmp.Or(t.Fades, time.Second), cmp.Or(t.Probe, time.Second)
	t.Ends, t.Pause = cmp.Or(t.Ends, 30*time.Second), cmp.Or(t.Pause, 100*time.Millisecond)
	return t
}

func (t *Throttle) isValid() bool {
	return t.Sent >= 1 && t.Accepted >= 1 && min(t.Fades, t.Probe, t.Ends, t.Pause) > 0
}
