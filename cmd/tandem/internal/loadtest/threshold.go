package loadtest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Threshold is a condition that a result must meet, such as p99<20ms.
type Threshold struct {
	text   string
	metric string // rate, errors, mean, max or p with a percentile
	op     string // <, <=, > or >=
	bound  float64
}

// Outcome is whether a result meets a threshold.
type Outcome struct {
	Threshold string `json:"threshold"`
	Value     string `json:"value"` // for people
	Crossed   bool   `json:"crossed"`
}

// ParseThreshold reads a threshold: a metric, an operator and a bound. Metrics of latencies have
// durations as bounds, errors a percentage, and rate a number of calls a second.
func ParseThreshold(text string) (Threshold, error) {
	t := Threshold{text: strings.Join(strings.Fields(text), "")}
	at := strings.IndexAny(t.text, "<>")
	if at < 0 {
		return t, fmt.Errorf("%q: want a condition such as p99<20ms, errors<0.1%% or rate>900", text)
	}
	t.metric, t.op = t.text[:at], t.text[at:at+1]
	bound := t.text[at+1:]
	if rest, ok := strings.CutPrefix(bound, "="); ok {
		t.op, bound = t.op+"=", rest
	}
	var err error
	switch {
	case t.metric == "rate":
		t.bound, err = strconv.ParseFloat(bound, 64)
	case t.metric == "errors":
		t.bound, err = percentage(bound)
	case t.metric == "mean" || t.metric == "max" || t.percentile() >= 0:
		var d time.Duration
		d, err = time.ParseDuration(bound)
		t.bound = float64(d) / float64(time.Millisecond)
	default:
		return t, fmt.Errorf("%q: no metric %q: want rate, errors, mean, max or a percentile such as p99.9", text, t.metric)
	}
	if err == nil && (math.IsNaN(t.bound) || t.bound < 0) {
		err = fmt.Errorf("%s is no bound", bound)
	}
	if err != nil {
		return t, fmt.Errorf("%q: %w", text, err)
	}
	return t, nil
}

// percentage returns the share that a text such as 0.1% says.
func percentage(text string) (float64, error) {
	rest, ok := strings.CutSuffix(text, "%")
	if !ok {
		return 0, fmt.Errorf("%s: want a percentage, such as 0.1%%", text)
	}
	v, err := strconv.ParseFloat(rest, 64)
	return v / hundredths, err
}

// percentile returns the percentile that the metric names, -1 if it names none.
func (t *Threshold) percentile() float64 {
	if rest, ok := strings.CutPrefix(t.metric, "p"); ok {
		if p, err := strconv.ParseFloat(rest, 64); err == nil && p > 0 && p <= 100 {
			return p
		}
	}
	return -1
}

// Judge compares a result, which was measured in this process, with thresholds, and keeps the
// outcomes in it. It returns those that are crossed. A latency is crossed if no call succeeded.
func (res *Result) Judge(thresholds []Threshold) (crossed []Outcome) {
	for i := range thresholds {
		t := &thresholds[i]
		value, text := t.value(res)
		o := Outcome{t.text, text, !t.holds(value)}
		res.Thresholds = append(res.Thresholds, o)
		if o.Crossed {
			crossed = append(crossed, o)
		}
	}
	return crossed
}

// value returns what the threshold is about, and its text.
func (t *Threshold) value(res *Result) (v float64, text string) {
	switch {
	case t.metric == "rate":
		return res.Rate, number(res.Rate) + "/s"
	case t.metric == "errors":
		return res.Errors, percent(res.Errors)
	case res.Calls.OK == 0:
		return math.NaN(), "unknown, as no call succeeded"
	case t.metric == "mean":
		v = res.Latency.Mean
	case t.metric == "max":
		v = res.Latency.Max
	default:
		v = millisAt(res.histogram, t.percentile())
	}
	return v, shown(v)
}

// holds reports whether the condition holds for a value; it holds for no NaN.
func (t *Threshold) holds(v float64) bool {
	switch t.op {
	case "<":
		return v < t.bound
	case "<=":
		return v <= t.bound
	case ">":
		return v > t.bound
	}
	return v >= t.bound
}

// percent prints a share as a percentage. Only nothing is 0%, and only everything is 100%.
func percent(share float64) string {
	const digits = 2 // of a share that is not 0
	p := share * hundredths
	switch v := round(p, hundredths); {
	case v == 0 && p > 0:
		return strconv.FormatFloat(p, 'g', digits, 64) + "%"
	case v >= 100 && p < 100:
		return "99.99%"
	default:
		return strconv.FormatFloat(v, 'f', -1, 64) + "%"
	}
}
