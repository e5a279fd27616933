package resilience

import (
	"math"
	"sync"
	"time"
)

// Latencies estimates the latencies of methods, to find calls that take long compared with
// others of their method. It holds at most 1,024 methods. It is safe for concurrent use; the
// zero value is ready.
type Latencies struct {
	mu      sync.RWMutex
	methods map[string]*Latency
}

const maxMethods = 1024

// Of returns the method's latency; nil if there are too many methods.
func (l *Latencies) Of(method string) *Latency {
	l.mu.RLock()
	known := l.methods[method]
	l.mu.RUnlock()
	if known != nil {
		return known
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known = l.methods[method]; known == nil && len(l.methods) < maxMethods {
		if l.methods == nil {
			l.methods = map[string]*Latency{}
		}
		known = new(Latency)
		l.methods[method] = known
	}
	return known
}

// Latency is a histogram whose samples fade: every ten seconds, if there are enough others,
// each sample counts half. A bucket's limit is 2^(1/8) times that of the one before, so a
// quantile is at most 9 % too high; the first limit is a millisecond. It is safe for concurrent
// use; the zero value is ready.
type Latency struct {
	mu     sync.Mutex
	counts [buckets]uint32
	total  uint32
	halved time.Time
}

const (
	floor      = time.Millisecond
	perOctave  = 8
	octaves    = 16 // up to 65 s; longer calls count as that
	buckets    = octaves*perOctave + 1
	minSamples = 100
	halfLife   = 10 * time.Second
)

// Observe counts a call that took this long and ended now.
func (l *Latency) Observe(took time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total == 0:
		l.halved = now
	case l.total >= 2*minSamples && now.Sub(l.halved) >= halfLife, l.total == math.MaxUint32:
		l.halve()
		l.halved = now
	}
	l.counts[bucket(took)]++
	l.total++
}

func (l *Latency) halve() {
	l.total = 0
	for i := range l.counts {
		l.counts[i] /= 2
		l.total += l.counts[i]
	}
}

// bucket returns the first bucket whose limit is not below d.
func bucket(d time.Duration) int {
	if d <= floor {
		return 0
	}
	return min(int(math.Ceil(perOctave*math.Log2(float64(d)/float64(floor)))), buckets-1)
}

func limit(bucket int) time.Duration {
	return time.Duration(float64(floor) * math.Exp2(float64(bucket)/perOctave))
}

// Quantile returns the latency that a share q of the calls did not exceed: 0.95 is the 95th
// percentile. It is never below a millisecond. It returns false before there are 100 samples.
func (l *Latency) Quantile(q float64) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total < minSamples {
		return 0, false
	}
	left := uint32(q * float64(l.total))
	for i, n := range l.counts {
		if n > left {
			return limit(i), true
		}
		left -= n
	}
	return limit(buckets - 1), true
}
