package demo

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The last second is kept in slots, so that it can move on five times in it.
const (
	slots    = 5
	slotTime = time.Second / slots
)

// latencies are those of one server, or of all: of the whole run, and of the
// last second. It is not safe for concurrent use.
type latencies struct {
	answered int // calls, with those whose time does not count
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

// newHistogram counts microseconds up to a minute to two digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 2)
}

func (l *latencies) add(d time.Duration) {
	us := min(max(1, d.Microseconds()), time.Minute.Microseconds())
	_ = l.whole.RecordValue(us)          // it is within the bounds
	_ = l.recent[l.slot].RecordValue(us) // as above
}

// rotate forgets the oldest slot.
func (l *latencies) rotate() {
	l.slot = (l.slot + 1) % slots
	l.recent[l.slot].Reset()
}

// figures are what is shown of latencies.
type figures struct {
	rate     float64 // calls a second
	p50, p99 time.Duration
}

// lastSecond returns the figures of the slots that are complete, and of the one
// that has begun.
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
