package tandem

import "time"

// Outcome is how a call has ended, as plugins learn it. All plugins of a call
// share one look at the clock when it begins and one when it ends.
type Outcome struct {
	Began time.Time
	Took  time.Duration
	Err   error // nil if the call succeeded
}

// Code returns the code of the outcome, OK for success.
func (o Outcome) Code() Code {
	if o.Err == nil {
		return OK
	}
	return CodeOf(o.Err)
}
