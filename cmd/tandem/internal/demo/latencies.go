package demo

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The last second is kept in slots, so that it moves on in steps of slotTime.
const (
	slots    = 5
	slotTime = time.Second / slots
)

// latencies are the latencies of one server, or of all, in the whole run and in the last
// second. It is not safe for concurrent use.
type latencies struct {
	answered int // calls, including those whose latency is not recorded
	whole    *hdrhistogram.Histogram
	recent   [slots]*hdrhistogram.Histogram
	slot     int
}

func newLatencies() *latencies {
	l := &latencies{whole: newHistogram()}
	for i := range l.recent {
		l.recent[i] = newHistogram()
	}
	return l
}

// newHistogram returns a histogram of microseconds up to a minute, with two significant digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 2)
}

func (l *latencies) add(d time.Duration) {
	us := min(max(1, d.Microseconds()), time.Minute.Microseconds())
	_ = l.whole.RecordValue(us)          // it is within the bounds
	_ = l.recent[l.slot].RecordValue(us) // it is within the bounds
}

// rotate forgets the oldest slot.
func (l *latencies) rotate() {
	l.slot = (l.slot + 1) % slots
	l.recent[l.slot].Reset()
}

// figures are the figures shown for latencies.
type figures struct {
	rate     float64 // calls a second
	p50, p99 time.Duration
}

// lastSecond returns the figures of the complete slots and of the current one.
func (l *latencies) lastSecond() figures {
	sum := newHistogram()
	for _, h := range l.recent {
		sum.Merge(h)
	}
	return figuresOf(sum, time.Second-slotTime)
}

// total returns the figures of a whole run.
func (l *latencies) total(span time.Duration) figures { return figuresOf(l.whole, span) }

func figuresOf(h *hdrhistogram.Histogram, span time.Duration) figures {
	quantile := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond }
	return figures{
		rate: float64(h.TotalCount()) / span.Seconds(),
		p50:  quantile(50), p99: quantile(99),
	}
}
