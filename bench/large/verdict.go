package large

import (
	"fmt"
	"slices"

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
		var v []float64
		for _, s := range byRound(r, system) {
			v = append(v, figure(s))
		}
		if len(v) > 0 {
			*all = append(*all, Verdict{What: system + ", " + what, Value: median(v)})
		}
	}
}

// ratio adds to v, which says what the figure is and has the target, the median
// of a system's figure divided by that of the base in the same round.
func (all *verdicts) ratio(r *harness.Report, figure func(harness.Sample) float64, system, base string, v Verdict) {
	bases := byRound(r, base)
	var ratios []float64
	for round, s := range byRound(r, system) {
		if b, ok := bases[round]; ok {
			ratios = append(ratios, figure(s)/figure(b))
		}
	}
	if len(ratios) > 0 {
		v.What, v.Value = fmt.Sprintf("%s ÷ %s, %s", system, base, v.What), median(ratios)
		*all = append(*all, v)
	}
}

// byRound returns a system's samples that have figures.
func byRound(r *harness.Report, system string) map[int]harness.Sample {
	found := map[int]harness.Sample{}
	for _, s := range r.Samples {
		if s.System == system && s.Error == "" && s.Unsupported == "" {
			found[s.Round] = s
		}
	}
	return found
}

// median of v, which must not be empty.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}
