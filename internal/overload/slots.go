package overload

import "time"

// Load holds the measurements of the processors since the last sample.
type Load struct {
	Runnable float64       // goroutines that wait for a processor, per processor
	Wait     time.Duration // median time that a goroutine waits for a processor
	Timeout  time.Duration // usual timeout of calls; 0 if none came
	Behind   time.Duration // age of the oldest requests in the kernel's receive buffers
}

// slots bound how many handlers run while goroutines wait for a processor, like the slot
// adjuster of CockroachDB's admission control: when too many goroutines wait, the slots become
// fewer; when few wait, and requests wait for slots, they become more. Handlers that wait for
// something else make no goroutine runnable, so they get as many slots as they need.
type slots struct {
	limit int64 // 0 for none
	least int
	calm  int // samples in a row in which the limit was not reached
}

func (s *slots) adjust(cfg *Config, l Load, running int64, waiting bool) {
	timeout := l.Timeout
	if timeout <= 0 {
		timeout = cfg.UsualTimeout
	}
	busy := l.Runnable > cfg.Busy
	switch {
	case s.limit == 0:
		if engage := cfg.Engage * float64(timeout); busy && float64(l.Wait) > engage || float64(l.Behind) > engage {
			s.limit, s.calm = max(int64(s.least), running), 0
			s.fewer(cfg, running)
		}
	case busy:
		s.calm = 0
		s.fewer(cfg, running)
	case waiting:
		s.calm = 0
		if l.Runnable < cfg.Idle || running < s.limit {
			s.limit = max(s.limit+1, int64(cfg.More*float64(s.limit)))
		}
	case running < s.limit:
		if s.calm++; s.calm >= cfg.CalmAfter {
			s.limit = 0
		}
	}
}

func (s *slots) fewer(cfg *Config, running int64) {
	s.limit = max(int64(s.least), int64(cfg.Fewer*float64(min(s.limit, running))))
}
