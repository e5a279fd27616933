package overload

import "sync/atomic"

// streams is the limit of running streams while the gate guards. Handlers of streams mostly
// wait, often for long, so they take no slots. The limit begins at the number of streams that
// run at that moment, is lowered when goroutines wait for a processor though the slots are down
// to their least number, and is never below Config.Streams.
type streams struct {
	running atomic.Int64
	limit   atomic.Int64 // 0 for none
	kept    atomic.Bool  // a stream was refused since the last sample
}

// BeginStream reports whether a stream may begin. [Gate.EndStream] must follow if it may.
func (g *Gate) BeginStream() bool {
	n, limit := g.streams.running.Add(1), g.streams.limit.Load()
	if limit == 0 || n <= limit {
		return true
	}
	g.streams.running.Add(-1)
	g.streams.kept.Store(true)
	g.mu.Lock()
	g.counts.Streams++
	g.mu.Unlock()
	return false
}

// EndStream records that a stream has ended.
func (g *Gate) EndStream() { g.streams.running.Add(-1) }

// adjust updates the limit by a sample. The slots must be updated first.
func (s *streams) adjust(cfg *Config, l Load, calls *slots, kept bool) {
	least, running, limit := int64(cfg.Streams), s.running.Load(), s.limit.Load()
	busy := l.Runnable > cfg.Busy
	switch {
	case calls.limit == 0:
		limit = 0
	case limit == 0:
		limit = max(least, running)
	case busy && calls.limit <= int64(calls.least):
		limit = max(least, int64(cfg.Fewer*float64(min(limit, running))))
	case busy:
		limit = max(least, min(limit, running))
	case kept:
		limit = max(limit+1, int64(cfg.More*float64(limit)))
	}
	s.limit.Store(limit)
}
