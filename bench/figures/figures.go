// Package figures summarizes measurements of the bench's commands, and prints them.
package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Spread is one figure over all rounds.
type Spread struct{ Median, Min, Max float64 }

// SpreadOf returns the spread of v, zeros when it is empty.
func SpreadOf(v []float64) Spread {
	if len(v) == 0 {
		return Spread{}
	}
	v = slices.Sorted(slices.Values(v))
	mid := len(v) / 2
	median := v[mid]
	if len(v)%2 == 0 {
		median = (v[mid-1] + v[mid]) / 2
	}
	return Spread{median, v[0], v[len(v)-1]}
}

// Fixed returns the median with the minimum and the maximum in brackets, each with that
// many digits after the point.
func (s Spread) Fixed(digits int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.Median, digits, s.Min, digits, s.Max)
}

// Number formats v with three digits, or more if it needs them.
func Number(v float64) string {
	switch size := math.Abs(v); {
	case size >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
