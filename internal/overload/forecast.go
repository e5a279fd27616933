package overload

import "time"

// started measures how quickly requests of the method leave the queue. A gap that is much
// longer than usual counts as a long one only: the process was stopped, or reads what has come
// meanwhile, which says nothing of the requests that wait.
func (m *Method) started(now int64) {
	if m.waiting() > 0 && m.last != 0 {
		const weight, longest = 16, 4
		gap := min(now-m.last, longest*m.usualGap())
		m.spacing += (gap - m.spacing) / weight
	}
	m.last = now
	if m.waiting() == 0 {
		m.last = 0
	}
}

// Paused tells the gate that handlers have let others run: until the next one starts, the time
// is not that of requests.
func (g *Gate) Paused() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.methods {
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
	return int64(n) * m.usualGap()
}

// usualGap returns how many ns lie between two starts of the method; while nobody has waited
// yet, what follows from the handlers that run (Little's law).
func (m *Method) usualGap() int64 {
	if m.spacing > 0 {
		return m.spacing
	}
	return max(1, m.took.Load()/max(1, m.running.Load()))
}

// fits reports whether the request may be queued, which then waits for so long: for no more than
// a share of the time that its handler leaves, since the forecast does not know everything. How
// long it has waited on its way here does not count, but for what that leaves. Were the
// handler's own time shared as well, a method whose handlers take half of it would have no
// queue, and so no turns between callers. A request without a deadline may wait for a share of
// the usual timeout.
func (r *Request) fits(ahead, now int64, cfg *Config) bool {
	if r.Deadline == 0 {
		return ahead <= int64(cfg.Slack*float64(cfg.UsualTimeout))
	}
	left := float64(r.Deadline-now) - r.need(cfg)
	return left >= 0 && float64(ahead) <= cfg.Slack*left
}

// isInTime reports whether the request can still end in time if it begins now.
func (r *Request) isInTime(now int64, cfg *Config) bool {
	if r.Deadline == 0 {
		return now-r.asked <= int64(cfg.UsualTimeout)
	}
	return float64(r.Deadline-now) >= r.need(cfg)
}

// need is how many ns the handler will take, with a margin.
func (r *Request) need(cfg *Config) float64 { return cfg.Margin * float64(r.Method.took.Load()) }

// Bounds of what a refused caller is asked to wait.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = time.Second
)

func pause(ahead int64) time.Duration {
	return min(max(time.Duration(ahead), shortestPause), longestPause)
}
