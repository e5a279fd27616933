package loadtest

import (
	"strings"
	"testing"
	"time"
)

// measured returns a result of a hundred calls that took 1 ms to 100 ms, of which failed ones are
// counted besides.
func measured(failed int64) *Result {
	h := newHistogram(digits)
	for i := range 100 {
		record(h, time.Duration(i+1)*time.Millisecond)
	}
	res := &Result{Calls: Counts{OK: 100, Failed: failed}, Rate: 100, Latency: latenciesOf(h), histogram: h}
	res.Errors = res.Calls.errors()
	return res
}

func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		text    string
		failed  int64
		crossed bool
		value   string
	}{
		{"p99<100ms", 0, false, "99.0 ms"},
		{"p99 < 99ms", 0, true, "99.0 ms"},
		{"p50<=51ms", 0, false, "50.0 ms"},
		{"p99.5<99ms", 0, true, "100 ms"},
		{"p100<1s", 0, false, "100 ms"},
		{"max>1s", 0, true, "100 ms"},
		{"mean<51ms", 0, false, "50.5 ms"},
		{"errors<0.1%", 0, false, "0%"},
		{"errors<=0%", 0, false, "0%"},
		{"errors<1%", 1, false, "0.99%"},
		{"errors<0.5%", 1, true, "0.99%"},
		{"errors<10%", 100, true, "50%"},
		{"rate>100", 0, true, "100/s"},
		{"rate>=100", 0, false, "100/s"},
	} {
		limit, err := ParseThreshold(c.text)
		if err != nil {
			t.Error(err)
			continue
		}
		res := measured(c.failed)
		crossed := res.Judge([]Threshold{limit})
		if got := res.Thresholds[0]; got.Crossed != c.crossed || got.Value != c.value || len(crossed) == 1 != c.crossed {
			t.Errorf("%s: %+v", c.text, got)
		}
	}
}

// TestThresholdsWithoutSuccess: a latency that is unknown meets no threshold.
func TestThresholdsWithoutSuccess(t *testing.T) {
	res := &Result{Calls: Counts{Failed: 10}, Errors: 1, histogram: newHistogram(digits)}
	for _, text := range []string{"p99<20ms", "p99>0s", "errors<100%", "rate>0", "mean<1s"} {
		limit, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		if crossed := res.Judge([]Threshold{limit}); len(crossed) != 1 {
			t.Errorf("%s holds", text)
		}
	}
}

func TestBadThresholds(t *testing.T) {
	for text, want := range map[string]string{
		"":            "want a condition",
		"p99":         "want a condition",
		"p99=20ms":    "want a condition",
		"p99<20":      "missing unit",
		"p99<":        "invalid duration",
		"p0<1s":       `no metric "p0"`,
		"p101<1s":     `no metric "p101"`,
		"pNaN<1s":     `no metric "pNaN"`,
		"latency<1s":  "want rate, errors, mean",
		"errors<0.1":  "want a percentage",
		"errors<x%":   "invalid syntax",
		"rate>fast":   "invalid syntax",
		"rate>NaN":    "no bound",
		"rate>-1":     "no bound",
		"p99<<20ms":   "invalid duration",
		"errors<-1 %": "no bound",
	} {
		if _, err := ParseThreshold(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0%", 1: "100%", 0.5: "50%", 0.0000123: "0.0012%", 0.999999: "99.99%", 0.1234: "12.34%", 0.00123: "0.12%"} {
		if got := percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}
