// Package micro runs benchmarks for the commands that measure a part of a call:
// functions in this process, and benchmarks among a package's tests, which may
// use what is internal there. A round runs each once; rounds follow each other,
// so that what the machine does beside falls on all, and a ratio is taken within
// its round.
package micro

import (
	"fmt"
	"io"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/harness"
)

// Sample is what one round measured of a benchmark.
type Sample struct {
	NS     float64 `json:"ns_op"`           // time of an operation, in ns
	MBs    float64 `json:"mb_s,omitempty"`  // 10^6 bytes a second, where an operation has bytes
	Bytes  float64 `json:"b_op"`            // allocated by an operation
	Allocs float64 `json:"allocs_op"`       // objects allocated by an operation
	Extra  float64 `json:"extra,omitempty"` // what the benchmark reports besides, in a unit of its own
}

// Results are the samples of each benchmark by its name, one for each round.
type Results map[string][]Sample

// Settings say how long a run measures. They are part of its report.
type Settings struct {
	Count int           `json:"count"`        // rounds
	Time  time.Duration `json:"benchtime_ns"` // of a benchmark in a round
}

// Report is the outcome of a run.
type Report struct {
	When     time.Time       `json:"when"`
	Machine  harness.Machine `json:"machine"`
	Settings Settings        `json:"settings"`
	Results  Results         `json:"results"`
}

// Median returns the median of each figure of a benchmark; all are 0 for one
// that was not measured.
func (r Results) Median(name string) Sample {
	of := func(figure func(Sample) float64) float64 {
		var all []float64
		for _, s := range r[name] {
			all = append(all, figure(s))
		}
		return figures.SpreadOf(all).Median
	}
	return Sample{
		NS:     of(func(s Sample) float64 { return s.NS }),
		MBs:    of(func(s Sample) float64 { return s.MBs }),
		Bytes:  of(func(s Sample) float64 { return s.Bytes }),
		Allocs: of(func(s Sample) float64 { return s.Allocs }),
		Extra:  of(func(s Sample) float64 { return s.Extra }),
	}
}

// Has reports whether the benchmark was measured.
func (r Results) Has(name string) bool { return len(r[name]) > 0 }

// Times returns the time of an operation in ns over the rounds.
func (r Results) Times(name string) figures.Spread { return Times(r[name]) }

// Times returns the time of an operation in ns over a benchmark's samples.
func Times(samples []Sample) figures.Spread {
	var all []float64
	for _, s := range samples {
		all = append(all, s.NS)
	}
	return figures.SpreadOf(all)
}

// Ratio returns the time of one benchmark divided by that of another, each
// round by itself.
func (r Results) Ratio(name, by string) figures.Spread { return Ratio(r[name], r[by]) }

// Ratio returns the times of samples divided by those of the samples that were
// taken in the same rounds. A sample without a partner is left out.
func Ratio(samples, by []Sample) figures.Spread {
	return pairs(samples, by, func(a, b float64) float64 { return a / b })
}

// Difference returns by how many ns one benchmark takes longer than another,
// each round by itself.
func (r Results) Difference(name, than string) figures.Spread {
	return pairs(r[name], r[than], func(a, b float64) float64 { return a - b })
}

func pairs(x, y []Sample, combine func(x, y float64) float64) figures.Spread {
	var all []float64
	for i := range min(len(x), len(y)) {
		all = append(all, combine(x[i].NS, y[i].NS))
	}
	return figures.SpreadOf(all)
}

// Write prints what was measured, where and how, and the tables.
func (r *Report) Write(w io.Writer, tables ...figures.Table) error {
	return figures.Write(w, []string{r.Machine.String(), r.Settings.String()}, tables...)
}

// String says in a line how long and how often was measured.
func (s Settings) String() string {
	return fmt.Sprintf("median of %d rounds of %v a benchmark, and in brackets least–most", s.Count, s.Time)
}
