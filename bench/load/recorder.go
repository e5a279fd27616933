package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are recorded from a nanosecond to a minute with three digits.
const (
	lowest  = int64(1)
	highest = int64(time.Minute)
	digits  = 3
)

// recorder collects the latencies of all workers.
type recorder struct {
	on atomic.Bool // calls that end while it is set are recorded

	mu       sync.Mutex
	hist     *hdrhistogram.Histogram
	failures int64
	first    error
}

func newRecorder() *recorder {
	return &recorder{hist: hdrhistogram.New(lowest, highest, digits)}
}

// counted returns how many calls have been recorded, without a worker's last few until it
// flushes.
func (r *recorder) counted() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hist.TotalCount() + r.failures
}

// fail counts a failed call. It records no latency: errors that come at once would make a
// broken system look fast.
func (r *recorder) fail(err error) {
	if !r.on.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures++
	if r.first == nil {
		r.first = err
	}
}

// result returns the recorder's part of a Result.
func (r *recorder) result() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := Result{
		Calls:    r.hist.TotalCount(),
		Failures: r.failures,
		Latency: Latency{
			Mean: time.Duration(r.hist.Mean()),
			Min:  time.Duration(r.hist.Min()),
			P50:  r.quantile(50),
			P90:  r.quantile(90),
			P99:  r.quantile(99),
			P999: r.quantile(99.9),

			P9999: r.quantile(99.99),

			Max: time.Duration(r.hist.Max()),
		},
	}
	if r.first != nil {
		res.FirstError = r.first.Error()
	}
	return res
}

func (r *recorder) quantile(q float64) time.Duration {
	return time.Duration(r.hist.ValueAtQuantile(q))
}

// samples buffers one worker's latencies, so that the recorder's lock is taken once for
// many calls.
type samples struct {
	to   *recorder
	n    int
	kept [32]time.Duration
}

func (s *samples) add(d time.Duration) {
	if !s.to.on.Load() {
		return
	}
	s.kept[s.n] = d
	s.n++
	if s.n == len(s.kept) {
		s.flush()
	}
}

func (s *samples) flush() {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	for _, d := range s.kept[:s.n] {
		// RecordValue fails only for a value out of range.
		_ = s.to.hist.RecordValue(min(max(int64(d), lowest), highest))
	}
	s.n = 0
}
