package harness

import (
	"fmt"
	"io"
	"slices"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/load"
)

// WriteTable writes the report as text: for each cell the medians over the rounds, with
// their spread (min-max) where it matters, and then every system divided by every baseline,
// round by round.
func (r *Report) WriteTable(w io.Writer) error {
	var tables []figures.Table
	for _, cell := range r.Cells() {
		tables = append(tables, r.Tables(cell)...)
	}
	lines := slices.Concat([]string{r.Machine.String()}, r.Topology, []string{r.Settings.String()})
	return figures.Write(w, append(lines, r.Failures()...), tables...)
}

// Tables returns the cell's figures, under the cell's name, and, if a baseline has some,
// ratios.
func (r *Report) Tables(cell Cell) []figures.Table {
	tables := []figures.Table{r.table(cell, cell.String(), columns)}
	if ratios := r.ratioColumns(cell); len(ratios) > 0 {
		tables = append(tables, r.table(cell, "", ratios))
	}
	return tables
}

// table has a row for each system, with dashes for one without figures.
func (r *Report) table(cell Cell, title string, cols []column) figures.Table {
	t := figures.Table{Title: title, Heads: []string{"system"}}
	for _, c := range cols {
		t.Heads = append(t.Heads, c.head)
	}
	for _, name := range r.Settings.Systems {
		row := []string{name}
		samples := r.of(cell, name)
		for _, c := range cols {
			text := "–"
			if len(samples) > 0 {
				text = c.text(samples)
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// column is a figure of a system in a cell, computed from its samples.
type column struct {
	head string
	text func([]Sample) string
}

// columns are the figures. Latencies are in microseconds; of the fraction of correct
// responses the smallest is shown, not the median.
var columns = []column{
	{"calls/s", withSpread(0, Sample.TPS)},
	{"CPU µs/call", served(withSpread(2, cpuMicros))},
	{"client", median(2, func(s Sample) float64 { return micros(s.ClientCPU()) })},
	{"server", served(median(2, func(s Sample) float64 { return micros(s.ServerCPU()) }))},
	{"mean µs", median(0, func(s Sample) float64 { return micros(s.Client.Latency.Mean) })},
	{"min", median(0, func(s Sample) float64 { return micros(s.Client.Latency.Min) })},
	{"p50", median(0, func(s Sample) float64 { return micros(s.Client.Latency.P50) })},
	{"p90", median(0, func(s Sample) float64 { return micros(s.Client.Latency.P90) })},
	{"p99", withSpread(0, func(s Sample) float64 { return micros(s.Client.Latency.P99) })},
	{"p99.9", median(0, func(s Sample) float64 { return micros(s.Client.Latency.P999) })},
	{"p99.99", median(0, func(s Sample) float64 { return micros(s.Client.Latency.P9999) })},
	{"max", median(0, func(s Sample) float64 { return micros(s.Client.Latency.Max) })},
	{"allocs client", median(1, Sample.ClientAllocs)},
	{"server", served(median(1, Sample.ServerAllocs))},
	{"reads+writes", served(median(3, Sample.IO))},
	{"peak MB client", median(0, func(s Sample) float64 { return mebi(s.Client.Usage) })},
	{"server", served(median(0, func(s Sample) float64 { return mebi(s.Server) }))},
	{"ok %", func(samples []Sample) string {
		return fmt.Sprintf("%.4g", 100*Over(samples, Sample.Success).Min)
	}},
}

// ratioColumns are the figures divided by those of the baselines that have samples in the
// cell. In an open loop the rate is given, and so not compared.
func (r *Report) ratioColumns(cell Cell) []column {
	var all []column
	for _, base := range r.Settings.Baselines {
		baseline := r.of(cell, base)
		if len(baseline) == 0 {
			continue
		}
		if cell.Rate == 0 {
			all = append(all, column{"calls/s ÷ " + base, divided(baseline, Sample.TPS)})
		}
		all = append(all, column{"CPU ÷ " + base, served(divided(baseline, cpuMicros))})
	}
	return all
}

// divided is a column of ratios.
func divided(baseline []Sample, figure func(Sample) float64) func([]Sample) string {
	return func(samples []Sample) string {
		v := Ratios(samples, baseline, figure)
		if len(v) == 0 {
			return "–"
		}
		return figures.SpreadOf(v).Fixed(2)
	}
}

// served is a column that is empty when the servers' usage is unknown.
func served(text func([]Sample) string) func([]Sample) string {
	return func(samples []Sample) string {
		for _, s := range samples {
			if !s.serverKnown() {
				return "–"
			}
		}
		return text(samples)
	}
}

// of returns a system's samples in a cell, if they have figures.
func (r *Report) of(cell Cell, system string) []Sample {
	var found []Sample
	for _, s := range r.Samples {
		if s.OK() && s.Cell == cell && s.System == system {
			found = append(found, s)
		}
	}
	return found
}

func withSpread(digits int, figure func(Sample) float64) func([]Sample) string {
	return func(samples []Sample) string { return Over(samples, figure).Fixed(digits) }
}

func median(digits int, figure func(Sample) float64) func([]Sample) string {
	return func(samples []Sample) string {
		return fmt.Sprintf("%.*f", digits, Over(samples, figure).Median)
	}
}

func cpuMicros(s Sample) float64 { return micros(s.CPU()) }

func mebi(u load.Usage) float64 { return float64(u.Peak) / (1 << 20) }

// Cells returns the cells of the report in their order.
func (r *Report) Cells() []Cell { return r.Settings.cells() }

// Over returns a figure of a system in a cell over all rounds, and false if there are no
// samples with figures.
func (r *Report) Over(cell Cell, system string, figure func(Sample) float64) (figures.Spread, bool) {
	samples := r.of(cell, system)
	return Over(samples, figure), len(samples) > 0
}
