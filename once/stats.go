package once

import "sync/atomic"

// Stats counts what a [Plugin] has done since it was made.
type Stats struct {
	Ran        uint64 // calls that ran and whose answer was kept
	Repeated   uint64 // calls that got the answer of an earlier one
	Mismatched uint64 // calls that were refused with Mismatch
	Undecided  uint64 // calls that were refused with Undecided
	Failed     uint64 // operations of the store that failed
	Running    int64  // calls that run just now
}

type counts struct {
	ran, repeated, mismatched, undecided, failed atomic.Uint64
	running                                      atomic.Int64
}

// Stats returns the counts. They are read one by one.
func (p *Plugin) Stats() Stats {
	c := &p.counts
	return Stats{
		Ran: c.ran.Load(), Repeated: c.repeated.Load(), Mismatched: c.mismatched.Load(),
		Undecided: c.undecided.Load(), Failed: c.failed.Load(), Running: c.running.Load(),
	}
}
