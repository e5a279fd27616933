package large

import (
	"fmt"
	"slices"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/harness"
)

// Verdict is a figure or a ratio within one run, the median of the rounds, and
// its target.
type Verdict struct {
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	Target float64 `json:"target,omitempty"` // 0 for none
	Least  bool    `json:"least,omitempty"`  // the target is the least that is good, else the most
}

// Met tells whether the value reaches its target, if there is one.
func (v Verdict) Met() bool {
	switch {
	case v.Target == 0:
		return true
	case v.Least:
		return v.Value >= v.Target
	}
	return v.Value <= v.Target
}

// String is the verdict in a line.
func (v Verdict) String() string {
	if v.Target == 0 {
		return fmt.Sprintf("%s: %.3g", v.What, v.Value)
	}
	bound, outcome := "at most", "met"
	if v.Least {
		bound = "at least"
	}
	if !v.Met() {
		outcome = "MISSED"
	}
	return fmt.Sprintf("%s: %.3g (target: %s %.3g: %s)", v.What, v.Value, bound, v.Target, outcome)
}

// verdicts grows by what the samples of a report have figures for.
type verdicts []Verdict

// figure adds the median of a figure of each system.
func (all *verdicts) figure(r *harness.Report, what string, figure func(harness.Sample) float64, systems ...string) {
	for _, system := range systems {
		if samples := of(r, system); len(samples) > 0 {
			*all = append(*all, Verdict{What: system + ", " + what, Value: harness.Over(samples, figure).Median})
		}
	}
}

// ratio adds to v, which says what the figure is and has the target, the median
// of a system's figure divided by that of the base in the same round.
func (all *verdicts) ratio(r *harness.Report, figure func(harness.Sample) float64, system, base string, v Verdict) {
	if ratios := harness.Ratios(of(r, system), of(r, base), figure); len(ratios) > 0 {
		v.What, v.Value = fmt.Sprintf("%s ÷ %s, %s", system, base, v.What), figures.SpreadOf(ratios).Median
		*all = append(*all, v)
	}
}

// of returns a system's samples that have figures. A part has one cell.
func of(r *harness.Report, system string) []harness.Sample {
	return slices.DeleteFunc(slices.Clone(r.Samples), func(s harness.Sample) bool { return s.System != system || !s.OK() })
}
