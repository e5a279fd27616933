package overload

import "time"

// started measures how quickly requests of the method leave the queue.
func (m *Method) started(now int64) {
	if m.waiting() > 0 && m.last != 0 {
		const weight = 16
		m.spacing += (now - m.last - m.spacing) / weight
	}
	m.last = now
	if m.waiting() == 0 {
		m.last = 0
	}
}

// ahead returns how long the request would wait: for those of its method that are served
// before it.
func (g *Gate) ahead(r *Request) int64 {
	m := r.Method
	n := 0
	for c := r.Class + 1; c < classes; c++ {
		n += m.queues[c].calls
	}
	n += m.queues[r.Class].ahead(r.Caller)
	spacing := m.spacing
	if spacing == 0 {
		spacing = m.took.Load() / max(1, m.running.Load())
	}
	return int64(n) * spacing
}

// fits reports whether a handler that begins then can end before the deadline: the request then
// has waited for no more than a share of the time that the handler usually leaves, since the
// forecast does not know everything. Were the handler's own time shared as well, a method whose
// handlers take half of it would have no queue, and so no turns between callers. A request
// without a deadline may run for as long as it takes, and wait for a share of the usual timeout.
func (r *Request) fits(begins int64, share float64, usual time.Duration) bool {
	if r.Deadline == 0 {
		return begins-r.Arrived <= int64(share*float64(usual))
	}
	left := r.Deadline - r.Arrived - r.Method.took.Load()
	return begins-r.Arrived <= int64(share*float64(left))
}

// Bounds of what a refused caller is asked to wait.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = time.Second
)

func pause(ahead int64) time.Duration {
	return min(max(time.Duration(ahead), shortestPause), longestPause)
}
