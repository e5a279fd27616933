package admin

import (
	"math/bits"
	"sync"
	"time"
)

// The history of a method has its rate in each second, and in longer windows how its calls ended
// and how long they took.
const (
	tick        = time.Second
	ticks       = 60
	windowTicks = 10
	windows     = 30
)

// history is what a method did in the last minutes.
type history struct {
	mu      sync.Mutex
	seconds [ticks]second // the latest is at (at-1) % ticks
	at      int           // seconds that have passed
	last    second        // totals at the last tick

	windows [windows]window // the latest is at (rolled-1) % windows
	rolled  int             // windows that have passed
	before  window          // totals at the end of the last window
	took    [buckets]uint64 // m.took at the end of the last window
}

// second is how many calls ended in a second, or ever.
type second struct{ ended, failed uint64 }

// window is what happened in a window, or ever.
type window struct {
	ended  uint64
	errors [codes]uint64
	took   []count
}

// sample keeps the history of all methods until over is closed, and no other server is there.
func (a *Admin) sample(over <-chan struct{}) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-over:
			if over = a.another(); over == nil {
				return
			}
			continue
		case <-t.C:
		}
		for _, m := range *a.all.Load() {
			m.tick(n%windowTicks == 0)
		}
		a.paceSpans()
	}
}

// another returns the channel of a server that is not draining. Without one it ends the timing of
// calls, until another server is registered, and returns nil.
func (a *Admin) another() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, srv := range a.servers {
		select {
		case <-srv.Draining():
		default:
			return srv.Draining()
		}
	}
	a.sampler = false
	for _, m := range *a.all.Load() {
		m.skip.Store(never)
	}
	return nil
}

// tick ends a second of the method's history, and a window if roll is set.
func (m *method) tick(roll bool) {
	_, ended, failed := m.totals()
	h := &m.history
	h.mu.Lock()
	defer h.mu.Unlock()
	now := second{ended, failed}
	past := second{now.ended - h.last.ended, now.failed - h.last.failed}
	h.seconds[h.at%ticks] = past
	h.at++
	h.last = now
	m.skip.Store(1<<bits.Len64(past.ended/timedRate) - 1)
	if roll {
		h.windows[h.rolled%windows] = m.windowLocked(now.ended)
		h.rolled++
	}
}

// windowLocked returns what has happened since the last window, and begins the next.
func (m *method) windowLocked(ended uint64) window {
	h := &m.history
	w := window{ended: ended - h.before.ended}
	h.before.ended = ended
	for i := range m.errors {
		n := m.errors[i].Load()
		w.errors[i] = n - h.before.errors[i]
		h.before.errors[i] = n
	}
	if w.ended > 0 { // else it is not worth a look at the buckets
		w.took = m.took.since(&h.took)
	}
	return w
}

// lately adds up the last n windows, and what has happened since. It returns the time that they
// cover.
func (m *method) lately(n int, into *sums) (w window, span time.Duration) {
	_, ended, _ := m.totals()
	h := &m.history
	h.mu.Lock()
	defer h.mu.Unlock()
	w.ended = ended - h.before.ended
	for i := range m.errors {
		w.errors[i] = m.errors[i].Load() - h.before.errors[i]
	}
	for i := range m.took {
		into[i] += m.took[i].Load() - h.took[i]
	}
	n = min(n, h.rolled, windows)
	for i := range n {
		past := &h.windows[(h.rolled-1-i)%windows]
		w.ended += past.ended
		for code, errors := range past.errors {
			w.errors[code] += errors
		}
		into.add(past.took)
	}
	return w, time.Duration(n*windowTicks+h.at%windowTicks) * tick
}

// series returns the seconds that are kept, the oldest first.
func (h *history) series() []second {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(h.at, ticks)
	out := make([]second, 0, n)
	for i := range n {
		out = append(out, h.seconds[(h.at-n+i)%ticks])
	}
	return out
}

// heat returns the buckets of the windows that are kept, the oldest first.
func (h *history) heat() [][]count {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(h.rolled, windows)
	out := make([][]count, 0, n)
	for i := range n {
		out = append(out, h.windows[(h.rolled-n+i)%windows].took)
	}
	return out
}
