package loadtest

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tandem-rpc/tandem"
)

// Histograms have nanoseconds up to an hour. Those of a second are shown only, so two digits do.
const (
	highest      = int64(time.Hour)
	digits       = 3
	secondDigits = 2
)

// shownSeconds is how many seconds of the past a view has.
const shownSeconds = 60

// sample is a call that has ended.
type sample struct {
	stage     int
	size      int // bytes of the response's message
	err       error
	due, end  time.Time
	late      time.Duration // how long after due it began
	abandoned bool          // it failed because the run was ended
}

// part is what was measured in a stage.
type part struct {
	from, to time.Time // calls are due in it
	counts   Counts
	answered int64 // successful calls whose responses arrived in it
	latency  *hdrhistogram.Histogram
}

// recorder collects what is measured. It is safe for concurrent use.
type recorder struct {
	begin time.Time // of the first stage

	mu       sync.Mutex
	parts    []part
	failed   *hdrhistogram.Histogram // latencies of failed calls
	late     *hdrhistogram.Histogram // how late calls began
	failures map[tandem.Code]*Failure
	received int64 // bytes of responses

	second  int // the current second, 0 for the first one after the warm-up
	now     secondCounts
	latency *hdrhistogram.Histogram // of the current second
	seconds []Second                // that have passed
}

// secondCounts are the counts of a second.
type secondCounts struct{ ok, failed, notSent int64 }

func newRecorder(load *Load, begin time.Time) *recorder {
	r := &recorder{
		begin: begin, second: -ceilSeconds(load.Warmup),
		failed: newHistogram(digits), late: newHistogram(digits), latency: newHistogram(secondDigits),
		failures: make(map[tandem.Code]*Failure),
	}
	for _, s := range load.Stages {
		r.parts = append(r.parts, part{from: begin, to: begin.Add(s.Duration), latency: newHistogram(digits)})
		begin = begin.Add(s.Duration)
	}
	return r
}

func newHistogram(digits int) *hdrhistogram.Histogram { return hdrhistogram.New(1, highest, digits) }

func ceilSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// record adds a duration to a histogram.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(1, int64(d)), highest)) // it is within the bounds
}

// ended records a call that has ended.
func (r *recorder) ended(s *sample) {
	took := s.end.Sub(s.due)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passLocked(s.end)
	if s.err == nil {
		r.now.ok++
		record(r.latency, took)
		if p := r.partLocked(s.end); p != nil {
			p.answered++
		}
	} else if !s.abandoned {
		r.now.failed++
	}
	if s.stage == warmingUp {
		return
	}
	record(r.late, s.late)
	p := &r.parts[s.stage]
	switch {
	case s.err == nil:
		p.counts.OK++
		r.received += int64(s.size)
		record(p.latency, took)
	case s.abandoned:
		p.counts.Unfinished++
	default:
		p.counts.Failed++
		record(r.failed, took)
		r.failLocked(s.err)
	}
}

// failLocked counts an error by its code.
func (r *recorder) failLocked(err error) {
	code := tandem.CodeOf(err)
	f := r.failures[code]
	if f == nil {
		f = &Failure{Code: code.String(), Example: err.Error()}
		r.failures[code] = f
	}
	f.Calls++
}

// notSent counts a call that was due and not sent.
func (r *recorder) notSent(stage int, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passLocked(due)
	r.now.notSent++
	if stage != warmingUp {
		r.parts[stage].counts.NotSent++
	}
}

// partLocked returns the part in which an instant is, nil if there is none.
func (r *recorder) partLocked(at time.Time) *part {
	for i := range r.parts {
		if p := &r.parts[i]; !at.Before(p.from) && at.Before(p.to) {
			return p
		}
	}
	return nil
}

// passLocked completes the seconds that have passed at an instant.
func (r *recorder) passLocked(at time.Time) {
	for ; !at.Before(r.begin.Add(time.Duration(r.second+1) * time.Second)); r.second++ {
		r.seconds = append(r.seconds, Second{
			At:   r.second,
			Rate: r.now.ok, Failed: r.now.failed, NotSent: r.now.notSent,
			P50: millisAt(r.latency, 50), P90: millisAt(r.latency, 90), P99: millisAt(r.latency, 99), //nolint:mnd // their names say it
		})
		r.now = secondCounts{}
		r.latency.Reset()
	}
}

// close ends the measurement at an instant: what is due later is not sent.
func (r *recorder) close(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passLocked(at)
	for i := range r.parts {
		p := &r.parts[i]
		if at.Before(p.to) {
			p.to = at
		}
		if at.Before(p.from) {
			p.from = at
		}
	}
}

// View is what is shown during a run.
type View struct {
	Elapsed, Duration time.Duration // since the end of the warm-up; negative before
	Stage             int           // from 0
	InFlight          int64
	Counts            Counts
	Seconds           []Second // the last ones that have passed
}

// view returns what to show at an instant.
func (r *recorder) view(at time.Time) *View {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passLocked(at)
	v := &View{Elapsed: at.Sub(r.begin), Duration: r.parts[len(r.parts)-1].to.Sub(r.begin)}
	for i := range r.parts {
		v.Counts.add(&r.parts[i].counts)
		if !at.Before(r.parts[i].from) {
			v.Stage = i
		}
	}
	v.Seconds = append(v.Seconds, r.seconds[max(0, len(r.seconds)-shownSeconds):]...)
	return v
}
