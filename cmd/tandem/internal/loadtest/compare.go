package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Comparison is how a result differs from an older one.
type Comparison struct {
	At    time.Time `json:"at"` // when the older one began
	Rows  []Ratio   `json:"rows"`
	Notes []string  `json:"notes,omitempty"` // what makes the comparison doubtful

	curve []Percentile // the older one's
}

// Ratio is how one figure differs. Latencies are in milliseconds.
type Ratio struct {
	What  string  `json:"what"`
	Old   float64 `json:"old"`
	New   float64 `json:"new"`
	Ratio float64 `json:"ratio,omitempty"` // new to old; 0 if the old one is 0
	old   string  // for people
	new   string
}

// Read reads a result from a file that tandem bench has written.
func Read(file string) (*Result, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	res := new(Result)
	if err := json.Unmarshal(data, res); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if res.Method == "" || res.Load.Loop == "" {
		return nil, fmt.Errorf("%s: %w", file, errNoResult)
	}
	return res, nil
}

var errNoResult = errors.New("no result of tandem bench: want a file of -o json or --report FILE.json")

// Compare keeps in the result how it differs from an older one.
func (res *Result) Compare(old *Result) {
	c := &Comparison{At: old.At, curve: old.Percentiles}
	add := func(what string, before, after float64, text func(float64) string) {
		r := Ratio{What: what, Old: before, New: after, old: text(before), new: text(after)}
		if before > 0 {
			r.Ratio = round(after/before, thousandths)
		}
		c.Rows = append(c.Rows, r)
	}
	perSecond := func(v float64) string { return number(v) + "/s" }
	a, b := &old.Latency, &res.Latency
	add("rate", old.Rate, res.Rate, perSecond)
	add("errors", old.Errors, res.Errors, percent)
	add("mean", a.Mean, b.Mean, shown)
	add("p50", a.P50, b.P50, shown)
	add("p90", a.P90, b.P90, shown)
	add("p99", a.P99, b.P99, shown)
	add("p99.9", a.P999, b.P999, shown)
	add("max", a.Max, b.Max, shown)
	note := func(what, before, after string) {
		if before != after {
			c.Notes = append(c.Notes, fmt.Sprintf("another %s than before: %s, was %s", what, after, before))
		}
	}
	note("method", old.Method, res.Method)
	note("load", old.Load.Text, res.Load.Text)
	note("machine", old.Generator.Machine.String(), res.Generator.Machine.String())
	res.Compared = c
}
