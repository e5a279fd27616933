package tandem

import "time"

// Outcome is how a call has ended, for plugins. The clock is read once when a call
// begins and once when it ends, for all plugins together.
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
