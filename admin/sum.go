package admin

import (
	"maps"
	"slices"
	"time"
)

// Sum adds up the figures of one method in several processes. The mean and the percentiles are those of
// all calls together if the figures have Times, and else the largest of them. The last seconds and
// windows of the series are taken as the same.
func Sum(figures ...MethodFigure) MethodFigure {
	var out MethodFigure
	all := new(sums)
	for i := range figures {
		f := &figures[i]
		out.Method, out.Kind, out.Safe = f.Method, f.Kind, f.Safe
		out.Calls += f.Calls
		out.Running += f.Running
		out.Rate += f.Rate
		out.ErrorRate += f.ErrorRate
		out.Mean, out.P50, out.P90 = max(out.Mean, f.Mean), max(out.P50, f.P50), max(out.P90, f.P90)
		out.P99, out.P999 = max(out.P99, f.P99), max(out.P999, f.P999)
		for code, n := range f.Errors {
			if out.Errors == nil {
				out.Errors = map[string]uint64{}
			}
			out.Errors[code] += n
		}
		for _, c := range f.Times {
			if c.Bucket >= 0 && c.Bucket < buckets {
				all[c.Bucket] += c.Calls
			}
		}
		out.PerSecond = addLatest(out.PerSecond, f.PerSecond, func(a, b Second) Second {
			return Second{a.Calls + b.Calls, a.Failed + b.Failed}
		})
		out.HeatWindow = max(out.HeatWindow, f.HeatWindow)
		out.Heat = addLatest(out.Heat, f.Heat, addCells)
	}
	out.addPercentiles(all)
	out.Times = all.counts()
	return out
}

// addLatest adds up two series by their ends.
func addLatest[T any](a, b []T, add func(a, b T) T) []T {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i := range b {
		at := len(a) - len(b) + i
		out[at] = add(out[at], b[i])
	}
	return out
}

func addCells(a, b []HeatCell) []HeatCell {
	at := map[time.Duration]uint64{}
	for _, c := range slices.Concat(a, b) {
		at[c.Took] += c.Calls
	}
	out := []HeatCell{}
	for _, took := range slices.Sorted(maps.Keys(at)) {
		out = append(out, HeatCell{took, at[took]})
	}
	return out
}
