package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// summary is the result of comparing the client's journal with the servers' journals.
type summary struct {
	Made, OK, Failed int
	Codes            map[string]int // of the failed calls
	Doubles          int            // calls that ran more than once although they must not
	Lost             int            // calls that succeeded although they never ran
	Contradictions   int            // calls that ran although their error claims that they did not
	Min, P50         time.Duration  // latency of the calls that succeeded
	P99, Max         time.Duration  // latency of the calls that succeeded
	First, Last      time.Time      // due times of the first and last call that failed
}

// summarize returns the summary of the entries that keep accepts.
func summarize(entries []entry, ran executions, keep func(entry) bool) summary {
	s := summary{Codes: map[string]int{}}
	var took []time.Duration
	for _, e := range entries {
		if !keep(e) {
			continue
		}
		s.Made++
		runs := len(ran[e.ID])
		if runs > 1 && !mayRepeat(e.Variant) {
			s.Doubles++
		}
		if e.ok() {
			s.OK++
			took = append(took, e.took())
			if runs == 0 {
				s.Lost++
			}
			continue
		}
		s.addFailure(e, runs)
	}
	slices.Sort(took)
	s.Min, s.P50, s.P99, s.Max = quantile(took, 0), quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1)
	return s
}

func (s *summary) addFailure(e entry, runs int) {
	s.Failed++
	s.Codes[e.Code]++
	if e.NotExecuted && runs > 0 {
		s.Contradictions++
	}
	if s.First.IsZero() || e.at().Before(s.First) {
		s.First = e.at()
	}
	if e.at().After(s.Last) {
		s.Last = e.at()
	}
}

// codes lists the error codes with their counts, the most frequent first.
func (s summary) codes() string {
	var names []string
	for name := range s.Codes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return s.Codes[b] - s.Codes[a] })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", s.Codes[name], name)
	}
	return strings.Join(names, ", ")
}

// mayRepeat reports whether calls of a variant may run more than once.
func mayRepeat(variant string) bool {
	return isSafe(variant) || slices.Contains([]string{"broadcast", "fork"}, variant)
}

func isSafe(variant string) bool { return strings.HasSuffix(variant, variantSafe) }

// moves reports whether calls of a variant go to another instance when their instance is
// silent.
func moves(variant string) bool {
	return variant == "failover"+variantSafe || variant == "backup"+variantSafe
}

// quantile returns the q-quantile of sorted values by the nearest-rank method, or 0 without
// values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// median returns the middle value, the lower of the two middle values, or 0 without values.
func median[T time.Duration | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[(len(values)-1)/2]
}

// check is a bar and the value that was measured.
type check struct {
	What string // what was measured, for the report: "tandem cubic: failed"
	Bar  string
	Got  string
	OK   bool
}

// atMost is the bar that got is at most bar.
func atMost(what string, got, bar int) check {
	return check{what, fmt.Sprintf("≤ %d", bar), fmt.Sprint(got), got <= bar}
}

func atLeast(what string, got, bar int) check {
	return check{what, fmt.Sprintf("≥ %d", bar), fmt.Sprint(got), got >= bar}
}

// notLonger is the bar that got is at most factor × reference.
func notLonger(what string, got, reference time.Duration, factor float64) check {
	bar := time.Duration(factor * float64(reference))
	return check{what, fmt.Sprintf("≤ %.4g × %v = %v", factor, round(reference), round(bar)), fmt.Sprint(round(got)), got <= bar}
}

// round rounds d to about three significant digits.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
