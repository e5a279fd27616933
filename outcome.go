package tandem

import "time"

// Outcome is how a call has ended, for plugins. The clock is read once when a call
// begins and once when it ends, for all plugins together.
type Outcome struct {
	Began time.Time
	Took  time.Duration
	Err   error // nil if the call succeeded

	// Attempts is how many attempts a client made at the call, retries and parallel ones
	// included; 0 if it found no instance, or a plugin refused the call. Attempts of
	// [Failback] in the background are not counted. On a server it is 0.
	Attempts int
}

// Code returns the code of the outcome, OK for success.
func (o Outcome) Code() Code {
	if o.Err == nil {
		return OK
	}
	return CodeOf(o.Err)
}

// DegradedKey is the key in a call's Trailer that says that the call failed and was answered all the
// same, by a rule of the client's policy: "last" for the last good answer, "default" for the rule's.
const DegradedKey = "tandem-degraded"
