package loadtest

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run has measured. Its fields are documented in docs/reference/cli.md. Latencies are
// numbers of milliseconds.
type Result struct {
	Target      string    `json:"target"`
	Method      string    `json:"method"`
	At          time.Time `json:"at"` // when it began
	Interrupted bool      `json:"interrupted,omitempty"`
	Load        Setting   `json:"load"`

	Calls    Counts     `json:"calls"`
	Rate     float64    `json:"rate"`   // successful calls a second
	Errors   float64    `json:"errors"` // share of the calls that failed or were not sent, 0 to 1
	Latency  Latencies  `json:"latencyMs"`
	Failed   *Latencies `json:"failedLatencyMs,omitempty"` // of failed calls
	Failures []Failure  `json:"failures"`
	Bytes    Bytes      `json:"bytes"`

	Stages      []StageResult `json:"stages"`
	Seconds     []Second      `json:"seconds"`
	Percentiles []Percentile  `json:"percentiles"`
	Histogram   []Bucket      `json:"histogram"`

	Generator  Generator   `json:"generator"`
	Warnings   []string    `json:"warnings"`
	Thresholds []Outcome   `json:"thresholds,omitempty"`
	Compared   *Comparison `json:"compared,omitempty"`

	histogram *hdrhistogram.Histogram // nil for a result that was read
}

// Setting is the load that was to be sent.
type Setting struct {
	Loop        string  `json:"loop"` // open or closed
	Note        string  `json:"note,omitempty"`
	Text        string  `json:"text"`
	Rate        float64 `json:"rate,omitempty"` // of the first stage
	Callers     int     `json:"callers,omitempty"`
	MaxInFlight int     `json:"maxInFlight,omitempty"`
	Connections int     `json:"connections"`
	Warmup      string  `json:"warmup"`
	Duration    string  `json:"duration"`
	Timeout     string  `json:"timeout"`
}

// Counts are numbers of calls.
type Counts struct {
	Due        int64 `json:"due"` // all of them
	OK         int64 `json:"ok"`
	Failed     int64 `json:"failed"`
	NotSent    int64 `json:"notSent"`              // too many were in flight
	Unfinished int64 `json:"unfinished,omitempty"` // in flight when the run was interrupted
}

func (c *Counts) add(other *Counts) {
	c.OK += other.OK
	c.Failed += other.Failed
	c.NotSent += other.NotSent
	c.Unfinished += other.Unfinished
	c.Due = c.OK + c.Failed + c.NotSent + c.Unfinished
}

// errors returns the share of the calls that failed or were not sent.
func (c *Counts) errors() float64 {
	if ended := c.OK + c.Failed + c.NotSent; ended > 0 {
		return float64(c.Failed+c.NotSent) / float64(ended)
	}
	return 0
}

// Latencies are the percentiles of latencies, in milliseconds.
type Latencies struct {
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	P9999 float64 `json:"p9999"`
	Max   float64 `json:"max"`
}

// Failure are the failed calls with one code.
type Failure struct {
	Code    string `json:"code"`
	Calls   int64  `json:"calls"`
	Example string `json:"example"` // the first one's message
}

// Bytes are the bytes of messages, encoded, without what protocols add.
type Bytes struct {
	Request  int     `json:"request"`  // of each
	Response float64 `json:"response"` // mean of those that arrived
}

// StageResult is what was measured in a stage.
type StageResult struct {
	Load     float64 `json:"load,omitempty"` // calls a second that were due
	Duration string  `json:"duration"`
	Calls    Counts  `json:"calls"`
	Rate     float64 `json:"rate"`
	Errors   float64 `json:"errors"`
	P50      float64 `json:"p50Ms"`
	P99      float64 `json:"p99Ms"`
	Max      float64 `json:"maxMs"`
}

// Second is what was measured in a second.
type Second struct {
	At      int     `json:"at"`   // seconds since the end of the warm-up
	Rate    int64   `json:"rate"` // successful calls that ended in it
	Failed  int64   `json:"failed"`
	NotSent int64   `json:"notSent"`
	P50     float64 `json:"p50Ms"`
	P90     float64 `json:"p90Ms"`
	P99     float64 `json:"p99Ms"`
}

// Percentile is a point of the percentile curve.
type Percentile struct {
	Percentile float64 `json:"percentile"` // 0 to 100
	Latency    float64 `json:"ms"`
}

// Bucket is a bar of the histogram.
type Bucket struct {
	From  float64 `json:"fromMs"`
	To    float64 `json:"toMs"`
	Calls int64   `json:"calls"`
}

// Generator is what sent the load.
type Generator struct {
	Machine
	CPU  float64  `json:"cpu,omitempty"` // processors that it used; 0 if that is not known
	Late Lateness `json:"lateMs"`
}

// Lateness is how many milliseconds after they were due calls began.
type Lateness struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// result returns what was measured.
func (r *recorder) result(load *Load) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := newHistogram(digits)
	res := &Result{
		At: r.begin.UTC().Truncate(time.Millisecond), Load: settingOf(load),
		Failures: []Failure{}, Warnings: []string{}, Seconds: []Second{}, Stages: []StageResult{}, histogram: all,
	}
	var answered int64
	var window time.Duration
	for i := range r.parts {
		p := &r.parts[i]
		all.Merge(p.latency)
		res.Calls.add(&p.counts)
		answered += p.answered
		window += p.to.Sub(p.from)
		res.Stages = append(res.Stages, p.result(load.Stages[i].Rate))
	}
	res.Rate, res.Errors = perSecond(answered, window), res.Calls.errors()
	res.Latency = latenciesOf(all)
	if r.failed.TotalCount() > 0 {
		res.Failed = new(latenciesOf(r.failed))
	}
	for _, f := range r.failures {
		res.Failures = append(res.Failures, *f)
	}
	slices.SortFunc(res.Failures, func(a, b Failure) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Code, b.Code)) })
	if res.Calls.OK > 0 {
		res.Bytes.Response = round(float64(r.received)/float64(res.Calls.OK), tenths)
	}
	for _, s := range r.seconds {
		if s.At >= 0 && s.At < ceilSeconds(window) {
			res.Seconds = append(res.Seconds, s)
		}
	}
	res.Percentiles, res.Histogram = curve(all), buckets(all)
	res.Generator.Machine = thisMachine()
	if load.Callers == 0 { // in a closed loop no call is due before its caller makes it
		res.Generator.Late = Lateness{millisAt(r.late, 50), millisAt(r.late, 99), millis(r.late.Max())} //nolint:mnd // percentiles
	}
	return res
}

func settingOf(load *Load) Setting {
	s := Setting{
		Loop: "open", Text: load.String(), Rate: load.Stages[0].Rate, MaxInFlight: load.MaxInFlight,
		Warmup: load.Warmup.String(), Duration: load.Duration().String(),
	}
	if load.Callers > 0 {
		s.Loop, s.Note, s.Callers, s.MaxInFlight = "closed", ClosedLoopNote, load.Callers, 0
	}
	return s
}

// result returns what was measured in a stage.
func (p *part) result(load float64) StageResult {
	var counts Counts
	counts.add(&p.counts)
	l := latenciesOf(p.latency)
	length := p.to.Sub(p.from)
	return StageResult{
		Load: load, Duration: length.Round(time.Millisecond).String(), Calls: counts,
		Rate: perSecond(p.answered, length), Errors: counts.errors(), P50: l.P50, P99: l.P99, Max: l.Max,
	}
}

// warn adds what makes the figures doubtful.
func (res *Result) warn(load *Load) {
	const (
		late = 5.0 // milliseconds
		busy = 0.8 // of the processors
	)
	add := func(format string, args ...any) { res.Warnings = append(res.Warnings, fmt.Sprintf(format, args...)) }
	if res.Interrupted {
		add("interrupted, with %d calls in flight", res.Calls.Unfinished)
	}
	if l := res.Generator.Late; load.Callers == 0 && l.P99 > late {
		add("the generator could not keep up: 1%% of the calls began more than %s after they were due, which the latencies include; send less, or give it more processors", shown(l.P99))
	}
	if n := min(runtime.GOMAXPROCS(0), runtime.NumCPU()); res.Generator.CPU > busy*float64(n) {
		add("the generator used %.1f of %d processors, so it may be what limits the rate", res.Generator.CPU, n)
	}
	if res.Calls.NotSent > 0 {
		add("%d calls were not sent, because %d were in flight (--max-in-flight)", res.Calls.NotSent, load.MaxInFlight)
	}
	if res.Calls.Failed > 0 {
		add("%d calls failed; the latencies are those of calls that succeeded", res.Calls.Failed)
	}
}

func latenciesOf(h *hdrhistogram.Histogram) Latencies {
	if h.TotalCount() == 0 {
		return Latencies{}
	}
	at := func(p float64) float64 { return millisAt(h, p) }
	return Latencies{
		Mean: round(h.Mean()/float64(time.Millisecond), tenthsOfMicros), Min: millis(h.Min()), Max: millis(h.Max()),
		P50: at(50), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9), P9999: at(99.99), //nolint:mnd // their names say it
	}
}

// curve returns the points of the percentile curve: about twenty for each further digit 9.
func curve(h *hdrhistogram.Histogram) []Percentile {
	const perDigit = 20
	points := []Percentile{}
	n := h.TotalCount()
	if n == 0 {
		return points
	}
	for i := 0; ; i++ {
		rest := math.Pow(10, -float64(i)/perDigit) //nolint:mnd // the share of calls that take longer
		if rest*float64(n) < 1 {
			break
		}
		p := 100 * (1 - rest) //nolint:mnd // percent
		points = append(points, Percentile{round(p, 1e6), millisAt(h, p)})
	}
	return append(points, Percentile{100, millis(h.Max())}) //nolint:mnd // percent
}

// buckets returns the histogram in steps of 1, 2, 5, 10, 20 … microseconds, from the first to
// the last one that has calls.
func buckets(h *hdrhistogram.Histogram) []Bucket {
	list := []Bucket{}
	from, to := int64(0), int64(time.Microsecond)
	factors := [3]int64{1, 2, 5}
	next := 1
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		for bar.From >= to {
			from = to
			to = int64(math.Pow10(next/len(factors))) * factors[next%len(factors)] * int64(time.Microsecond)
			next++
			if len(list) > 0 {
				list = append(list, Bucket{From: millis(from), To: millis(to)})
			}
		}
		if len(list) == 0 {
			list = append(list, Bucket{From: millis(from), To: millis(to)})
		}
		list[len(list)-1].Calls += bar.Count
	}
	return list
}

// How many parts of a unit are kept.
const (
	tenths         = 10
	hundredths     = 100
	thousandths    = 1000
	tenthsOfMicros = 10_000 // of a millisecond
)

func round(v, parts float64) float64 { return math.Round(v*parts) / parts }

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return round(float64(n)/d.Seconds(), hundredths)
}

func millis(ns int64) float64 {
	return round(float64(ns)/float64(time.Millisecond), tenthsOfMicros)
}

func millisAt(h *hdrhistogram.Histogram, percentile float64) float64 {
	return millis(h.ValueAtQuantile(percentile))
}

// shown returns milliseconds for people, with three digits.
func shown(ms float64) string {
	// Numbers from these on have a digit less after the point, as they are rounded.
	const second, hundred, ten, one = 999.5, 99.95, 9.995, 0.9995
	switch {
	case ms >= second:
		return fmt.Sprintf("%.2f s", ms/thousandths)
	case ms >= hundred:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= ten:
		return fmt.Sprintf("%.1f ms", ms)
	case ms >= one:
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.3f ms", ms)
}
