package harness

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/load"
)

// WriteTable writes the report for people: for each cell the medians over the
// rounds, with their spread (least–most) where it matters, and then every
// system divided by every baseline, round by round; of latencies also the
// number of rounds in which the system's was lower.
func (r *Report) WriteTable(w io.Writer) error {
	var tables []figures.Table
	for _, cell := range r.Cells() {
		tables = append(tables, r.Tables(cell)...)
	}
	lines := slices.Concat([]string{r.Machine.String()}, r.Topology, []string{r.Settings.String()})
	for _, system := range slices.Sorted(maps.Keys(r.Missing)) {
		lines = append(lines, fmt.Sprintf("%s is missing: %s", system, r.Missing[system]))
	}
	return figures.Write(w, append(lines, r.failures()...), tables...)
}

// Tables returns the cell's figures, under the cell's name, and, when a baseline
// has some, ratios.
func (r *Report) Tables(cell Cell) []figures.Table {
	tables := []figures.Table{r.table(cell, cell.String(), columns)}
	if ratios := r.ratioColumns(cell); len(ratios) > 0 {
		tables = append(tables,
			r.table(cell, "", ratios),
			r.table(cell, "latency divided, and in how many rounds it was lower", r.latencyColumns(cell)))
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

// column is a figure of a system in a cell, made from its samples.
type column struct {
	head string
	text func([]Sample) string
}

// columns are the figures; latencies are in microseconds, the smallest share
// of right answers is shown and not the median.
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
	{"allocs client", counted(Sample.ClientAllocs)},
	{"server", served(counted(Sample.ServerAllocs))},
	{"reads+writes", served(median(3, Sample.IO))},
	{"wire bytes", median(0, Sample.Wire)},
	{"peak MB client", median(0, func(s Sample) float64 { return mebi(s.Client.Usage) })},
	{"server", served(median(0, func(s Sample) float64 { return mebi(s.Server) }))},
	{"ok %", func(samples []Sample) string {
		return fmt.Sprintf("%.4g", 100*Over(samples, Sample.Success).Min)
	}},
}

// ratioColumns are the figures divided by those of the baselines that have
// samples in the cell. In an open loop the rate is given and not compared.
func (r *Report) ratioColumns(cell Cell) []column {
	return r.against(cell, func(by string, baseline []Sample) []column {
		cpu := column{"CPU" + by, served(divided(baseline, cpuMicros))}
		if cell.Rate > 0 {
			return []column{cpu}
		}
		return []column{{"calls/s" + by, divided(baseline, Sample.TPS)}, cpu}
	})
}

// latencyColumns are latencies divided by those of the baselines.
func (r *Report) latencyColumns(cell Cell) []column {
	return r.against(cell, func(by string, baseline []Sample) []column {
		var cols []column
		for _, l := range compared(cell) {
			cols = append(cols, column{l.name + by, dividedAndLower(baseline, l.figure)})
		}
		return cols
	})
}

// against makes columns for every baseline that has samples in the cell.
func (r *Report) against(cell Cell, columns func(by string, baseline []Sample) []column) []column {
	var all []column
	for _, base := range r.Settings.Baselines {
		if baseline := r.of(cell, base); len(baseline) > 0 {
			all = append(all, columns(" ÷ "+base, baseline)...)
		}
	}
	return all
}

// latency is a figure of the distribution.
type latency struct {
	name   string
	figure func(Sample) float64
}

// compared are the latencies that stand in the table of ratios.
func compared(cell Cell) []latency {
	mean := latency{"mean", func(s Sample) float64 { return micros(s.Client.Latency.Mean) }}
	p50 := latency{"p50", func(s Sample) float64 { return micros(s.Client.Latency.P50) }}
	p99 := latency{"p99", func(s Sample) float64 { return micros(s.Client.Latency.P99) }}
	p999 := latency{"p99.9", func(s Sample) float64 { return micros(s.Client.Latency.P999) }}
	if cell.Rate > 0 {
		return []latency{p99, p999}
	}
	return []latency{mean, p50, p999}
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

// dividedAndLower is a column of ratios, with the number of rounds in which
// the system's figure was lower than the baseline's.
func dividedAndLower(baseline []Sample, figure func(Sample) float64) func([]Sample) string {
	return func(samples []Sample) string {
		v := Ratios(samples, baseline, figure)
		if len(v) == 0 {
			return "–"
		}
		lower := 0
		for _, ratio := range v {
			if ratio < 1 {
				lower++
			}
		}
		return fmt.Sprintf("%.2f, %d of %d", figures.SpreadOf(v).Median, lower, len(v))
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

// of returns a system's samples in a cell that have figures.
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

// counted is empty for what systems in Java do not count.
func counted(figure func(Sample) float64) func([]Sample) string {
	return func(samples []Sample) string {
		if Over(samples, figure).Max == 0 {
			return "–"
		}
		return median(1, figure)(samples)
	}
}

func median(digits int, figure func(Sample) float64) func([]Sample) string {
	return func(samples []Sample) string {
		return fmt.Sprintf("%.*f", digits, Over(samples, figure).Median)
	}
}

func cpuMicros(s Sample) float64 { return micros(s.CPU()) }

func mebi(u load.Usage) float64 { return float64(u.Peak) / (1 << 20) }
