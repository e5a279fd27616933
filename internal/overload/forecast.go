package overload

import "time"

// started measures the time between two starts of the method. A gap counts as at most
// Config.LongestGap usual ones: in a longer one the process was stopped, or read what had arrived
// meanwhile, which says nothing about how fast handlers will start from now on.
func (m *Method) started(cfg *Config, now int64) {
	if m.waiting() > 0 && m.last != 0 {
		gap := min(now-m.last, part(cfg.LongestGap, m.usualGap()))
		m.spacing += part(cfg.GapGain, gap-m.spacing)
	}
	m.last = now
	if m.waiting() == 0 {
		m.last = 0
	}
}

// Paused records that a handler has yielded to the goroutines that read requests. The time
// until the next start is not measured.
func (g *Gate) Paused() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.methods {
		m.last = 0
	}
}

// ahead returns how long the request would wait, in ns: until the requests of its method that
// are served before it have begun.
func (g *Gate) ahead(r *Request) int64 {
	m := r.Method
	n := 0
	for c := r.Class + 1; c < classes; c++ {
		n += m.queues[c].calls
	}
	n += m.queues[r.Class].ahead(r.Caller)
	return int64(n) * m.usualGap()
}

// usualGap returns the average time between two starts of the method in ns. Before the first
// request has waited it is computed from the running handlers and their time (Little's law).
func (m *Method) usualGap() int64 {
	if m.spacing > 0 {
		return m.spacing
	}
	return max(1, m.took.Load()/max(1, m.running.Load()))
}

// fits reports whether a request may be queued that would wait for ahead ns. It may if that is at
// most Slack times the time until its deadline, less its handler's time; Slack allows for errors
// of the forecast. The handler's time is subtracted first, and not multiplied as well: else a
// method whose handlers take half of their time would queue nothing, and without a queue callers
// are not served in turns. A request without a deadline may wait for a share of the usual timeout.
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

// need is the time in ns that the handler is expected to take: its median times Margin.
func (r *Request) need(cfg *Config) float64 { return cfg.Margin * float64(r.Method.took.Load()) }

// pause returns the RetryAfter of a refused request that would have waited for ahead ns.
func (c *Config) pause(ahead int64) time.Duration {
	return min(max(time.Duration(ahead), c.ShortestPause), c.LongestPause)
}
