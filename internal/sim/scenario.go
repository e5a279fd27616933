package sim

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Scenario is a fault that real clusters have, with the figures that the defence must reach,
// and a naive policy to compare with.
type Scenario struct {
	Name    string   // of the plot's file
	Title   string   // one line
	Story   string   // what is played, for the report
	Defence string   // what the scenario shows
	Against string   // what it is compared with
	Faults  []string // that can be planted: each must make a figure miss
	Figures []Figure
	X, Y    string // axes of the plot
	LogY    bool
	Marks   []string // names along the axis, of bars or, if LogY, of points; none means numbers
	play    func(setting) measured
}

// Figure is a number that a scenario must reach.
type Figure struct {
	What    string
	Limit   float64
	AtLeast bool // the limit is the lowest good value, not the highest
	Percent bool // values are shares of 1
	Unit    string
}

// setting is one of the runs of a scenario.
type setting struct {
	seed  uint64
	naive bool
	fault string
}

// measured is the result of a run with one setting.
type measured struct {
	values []float64 // one for each figure; NaN where a figure has no meaning
	line   []Point
	more   []Series // other lines, of the same run
	worlds []*world
}

// Outcome is the result of a [Scenario].
type Outcome struct {
	Seen      []float64 // one for each figure of the scenario
	Naive     []float64 // the same under the naive policy; NaN where a figure has no meaning
	Chart     Chart
	Digest    uint64        // of all events, in order
	Events    uint64        // number of events
	Broken    []string      // invariants that did not hold
	Simulated time.Duration // virtual time that passed
}

// Options say how scenarios are run.
type Options struct {
	Seed  uint64 // of all random numbers
	Fault string // one of the scenario's, "" for none
}

// Run plays the scenario with its defence and, unless a fault is planted, under the naive
// policy.
func (s *Scenario) Run(o Options) Outcome {
	guarded := s.play(setting{seed: o.Seed, fault: o.Fault})
	out := Outcome{Seen: guarded.values, Digest: 14695981039346656037}
	var naive measured
	if o.Fault == "" {
		naive = s.play(setting{seed: o.Seed, naive: true})
		out.Naive = naive.values
	}
	for _, w := range append(guarded.worlds, naive.worlds...) {
		out.Digest = (out.Digest ^ w.log) * 1099511628211
		out.Events += w.planned - uint64(len(w.events))
		out.Broken = append(out.Broken, w.broken...)
		out.Simulated += w.since()
	}
	out.Chart = Chart{Name: s.Name, Title: s.Title, X: s.X, Y: s.Y, LogY: s.LogY, Bars: len(s.Marks) > 0 && !s.LogY}
	for i, name := range s.Marks {
		out.Chart.Ticks = append(out.Chart.Ticks, Tick{float64(i), name})
	}
	out.Chart.Series = append(out.Chart.Series, Series{Name: "tandem", Strong: true, Points: guarded.line})
	out.Chart.Series = append(out.Chart.Series, guarded.more...)
	out.Chart.Series = append(out.Chart.Series, Series{Name: "naive", Dashed: true, Points: naive.line})
	out.Chart.Series = append(out.Chart.Series, naive.more...)
	return out
}

// Missed returns the figures that are missed and the invariants that did not hold.
func (s *Scenario) Missed(out Outcome) []string {
	missed := append([]string(nil), out.Broken...)
	for i, f := range s.Figures {
		if !f.holds(out.Seen[i]) {
			missed = append(missed, fmt.Sprintf("%s: %s, wanted %s", f.What, f.Show(out.Seen[i]), f.Wanted()))
		}
	}
	return missed
}

func (f Figure) holds(seen float64) bool {
	if f.AtLeast {
		return seen >= f.Limit
	}
	return seen <= f.Limit // false for NaN
}

// Wanted returns the limit as text, for example "≤ 1 %".
func (f Figure) Wanted() string {
	if f.AtLeast {
		return "≥ " + f.Show(f.Limit)
	}
	return "≤ " + f.Show(f.Limit)
}

// Show returns a value as text, with its unit; an infinite one, of calls that did not succeed,
// is "never".
func (f Figure) Show(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 1):
		return "never"
	case f.Percent:
		return fmt.Sprintf("%.4g %%", 100*v)
	case v >= 1000:
		return strings.TrimSuffix(fmt.Sprintf("%.0f %s", v, f.Unit), " ")
	}
	return strings.TrimSuffix(fmt.Sprintf("%.4g %s", v, f.Unit), " ")
}

// Large returns the scenarios that take minutes, which have a report of their own.
func Large() []*Scenario { return []*Scenario{scaleLarge()} }

// Scenarios returns all scenarios but the large ones, in the order of the report.
func Scenarios() []*Scenario {
	return append([]*Scenario{
		slowNode(), newcomer(), errorNode(), zoneLoss(), massRestart(), loadSpike(), staleReports(),
		retryStorm(), layers(), metastable(), reconnectHerd(), listCollapse(), weights(), scale(),
	}, floods()...)
}
