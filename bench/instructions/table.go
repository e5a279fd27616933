package instructions

import (
	"fmt"
	"io"
	"slices"

	"github.com/tandem-rpc/tandem/bench/figures"
)

// baselines are the systems that the others are divided by.
var baselines = []string{"floor-mux", "netrpc"}

// EachCall is how many instructions the process executed for a call.
func (s Side) EachCall() float64 { return s.each(s.Instructions) }

func (s Side) each(n int64) float64 { return float64(n) / float64(max(1, s.Calls)) }

// EachMissed is how many reads and writes of a call were in no simulated cache.
func (s Side) EachMissed() float64 { return s.each(s.Missed) }

// EachCall is how many instructions both processes executed for a call.
func (s Sample) EachCall() float64 { return s.Server.EachCall() + s.Client.EachCall() }

// String is the line of progress.
func (s Sample) String() string {
	if s.Error != "" {
		return fmt.Sprintf("%s: FAILED: %s", s.System, s.Error)
	}
	return fmt.Sprintf("%s: %.0f instructions a call: server %.0f, client %.0f", s.System, s.EachCall(), s.Server.EachCall(), s.Client.EachCall())
}

// of returns the samples of a system that have figures.
func (r *Report) of(system string) (all []Sample) {
	for _, s := range r.Samples {
		if s.System == system && s.Error == "" {
			all = append(all, s)
		}
	}
	return all
}

// over is the spread of a figure over samples.
func over(samples []Sample, figure func(Sample) float64) figures.Spread {
	var v []float64
	for _, s := range samples {
		v = append(v, figure(s))
	}
	return figures.SpreadOf(v)
}

// ratio divides by a baseline's sample of the same round; "" if no round has
// both.
func ratio(samples, baseline []Sample, figure func(Sample) float64) string {
	var v []float64
	for _, s := range samples {
		for _, b := range baseline {
			if s.Round == b.Round {
				v = append(v, figure(s)/figure(b))
			}
		}
	}
	if len(v) == 0 {
		return ""
	}
	return figures.SpreadOf(v).Fixed(3)
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	s := r.Settings
	lines := []string{
		r.Machine.String() + ", " + r.Valgrind,
		fmt.Sprintf("%d rounds of %d calls at least, after %v; %d callers on %d connections; CGO_ENABLED=0 GODEBUG=asyncpreemptoff=1 GOMAXPROCS=1",
			s.Rounds, s.Calls, s.Warmup, s.Callers, s.Conns),
		"callgrind counts what runs in user space: the kernel's part of a call is missing, for all systems alike",
	}
	for _, sample := range r.Samples {
		if sample.Error != "" {
			lines = append(lines, sample.String())
		}
	}
	tables := []figures.Table{r.total("instructions a call", Side.EachCall), r.parts()}
	if s.Caches != (Caches{}) { // older results have none
		misses := r.total("reads and writes of data a call that are in no cache", Side.EachMissed)
		misses.Notes = []string{fmt.Sprintf("simulated are two caches of bytes, ways and bytes of a line: %s and %s", s.Caches.First, s.Caches.Second)}
		tables = append(tables, misses)
	}
	return figures.Write(w, lines, tables...)
}

// total is the table of a figure of whole calls.
func (r *Report) total(title string, figure func(Side) float64) figures.Table {
	t := figures.Table{
		Title: title + ", the median of all rounds (least–most); ratios of both sides together, within a round",
		Heads: []string{"system", "server", "client", "both"},
	}
	both := func(s Sample) float64 { return figure(s.Server) + figure(s.Client) }
	var divisors []string
	for _, b := range baselines {
		if slices.Contains(r.Settings.Systems, b) {
			divisors = append(divisors, b)
			t.Heads = append(t.Heads, "÷ "+b)
		}
	}
	for _, system := range r.Settings.Systems {
		samples := r.of(system)
		if len(samples) == 0 {
			continue
		}
		row := []string{
			system,
			over(samples, func(s Sample) float64 { return figure(s.Server) }).Fixed(0),
			over(samples, func(s Sample) float64 { return figure(s.Client) }).Fixed(0),
			over(samples, both).Fixed(0),
		}
		for _, b := range divisors {
			row = append(row, ratio(samples, r.of(b), both))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// sides are the rows that a system has in the table of parts.
var sides = []struct {
	name string
	part func(Sample, Part) float64
}{
	{"server", func(s Sample, p Part) float64 { return s.Server.each(s.Server.Parts[p]) }},
	{"client", func(s Sample, p Part) float64 { return s.Client.each(s.Client.Parts[p]) }},
	{"both", func(s Sample, p Part) float64 {
		return s.Server.each(s.Server.Parts[p]) + s.Client.each(s.Client.Parts[p])
	}},
}

// parts is the table of the parts of a call.
func (r *Report) parts() figures.Table {
	t := figures.Table{
		Title: "the same by where the function is, medians",
		Heads: []string{"system, side"},
		Notes: []string{"what the compiler has inlined counts for the function that it is inlined into; bench/README.md says what belongs where"},
	}
	for _, p := range inOrder {
		t.Heads = append(t.Heads, string(p))
	}
	for _, system := range r.Settings.Systems {
		samples := r.of(system)
		if len(samples) == 0 {
			continue
		}
		for _, side := range sides {
			row := []string{system + ", " + side.name}
			for _, p := range inOrder {
				row = append(row, fmt.Sprintf("%.0f", over(samples, func(s Sample) float64 { return side.part(s, p) }).Median))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
