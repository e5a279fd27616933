package overload

import "sync/atomic"

// Slot is the slot of one running handler; the zero value is held. It is safe for concurrent use.
type Slot struct{ state atomic.Int32 }

// The states of a [Slot].
const (
	slotHeld int32 = iota
	slotParked
	slotEnded
)

// Park gives up the slot for good, because its handler waits for memory. Meanwhile the handler
// uses no processor, and many such handlers would keep all others from starting. Once they have
// memory, its budget bounds how many of them run.
func (s *Slot) Park(g *Gate, now int64) Next {
	if !s.state.CompareAndSwap(slotHeld, slotParked) {
		return Next{}
	}
	g.running.Add(-1)
	if !g.guarding.Load() {
		return Next{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next(now)
}

// End ends the use of the slot, as the handler has ended. It reports whether the slot was given
// up, which is for [Handled].
func (s *Slot) End() (parked bool) { return s.state.Swap(slotEnded) == slotParked }
