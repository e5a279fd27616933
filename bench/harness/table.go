package harness

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tandem-rpc/tandem/bench/load"
)

// WriteTable writes the report for people: for each cell the medians over the
// rounds, with their spread (least–most) where it matters, and then every
// system divided by every baseline, round by round.
func (r *Report) WriteTable(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n%s\n", r.Machine, r.Settings); err != nil {
		return err
	}
	for _, cell := range r.Settings.cells() {
		figures := append([][]string{heads(columns)}, r.rows(cell, columns)...)
		if err := writeAligned(w, cell.String(), figures); err != nil {
			return err
		}
		ratios := r.ratioColumns(cell)
		if len(ratios) == 0 {
			continue
		}
		rows := append([][]string{heads(ratios)}, r.rows(cell, ratios)...)
		if err := writeAligned(w, "", rows); err != nil {
			return err
		}
	}
	return nil
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
	{"CPU µs/call", withSpread(2, cpuMicros)},
	{"client", median(2, func(s Sample) float64 { return micros(s.ClientCPU()) })},
	{"server", median(2, func(s Sample) float64 { return micros(s.ServerCPU()) })},
	{"mean µs", median(0, func(s Sample) float64 { return micros(s.Client.Latency.Mean) })},
	{"min", median(0, func(s Sample) float64 { return micros(s.Client.Latency.Min) })},
	{"p50", median(0, func(s Sample) float64 { return micros(s.Client.Latency.P50) })},
	{"p90", median(0, func(s Sample) float64 { return micros(s.Client.Latency.P90) })},
	{"p99", withSpread(0, func(s Sample) float64 { return micros(s.Client.Latency.P99) })},
	{"p99.9", median(0, func(s Sample) float64 { return micros(s.Client.Latency.P999) })},
	{"p99.99", median(0, func(s Sample) float64 { return micros(s.Client.Latency.P9999) })},
	{"max", median(0, func(s Sample) float64 { return micros(s.Client.Latency.Max) })},
	{"allocs client", median(1, Sample.ClientAllocs)},
	{"server", median(1, Sample.ServerAllocs)},
	{"reads+writes", median(3, Sample.IO)},
	{"wire bytes", median(0, Sample.Wire)},
	{"peak MB client", median(0, func(s Sample) float64 { return mebi(s.Client.Usage) })},
	{"server", median(0, func(s Sample) float64 { return mebi(s.Server) })},
	{"ok %", func(samples []Sample) string {
		return fmt.Sprintf("%.4g", 100*over(samples, Sample.Success).min)
	}},
}

// ratioColumns are the figures divided by those of the baselines that have
// samples in the cell.
func (r *Report) ratioColumns(cell Cell) []column {
	var cols []column
	for _, base := range r.Settings.Baselines {
		baseline := r.of(cell, base)
		if len(baseline) == 0 {
			continue
		}
		divided := func(figure func(Sample) float64) func([]Sample) string {
			return func(samples []Sample) string {
				v := ratios(samples, baseline, figure)
				if len(v) == 0 {
					return "–"
				}
				return spreadOf(v).format(2)
			}
		}
		cols = append(cols,
			column{"calls/s ÷ " + base, divided(Sample.TPS)},
			column{"CPU ÷ " + base, divided(cpuMicros)})
	}
	return cols
}

// rows has a row for each system, a dash for one without figures.
func (r *Report) rows(cell Cell, cols []column) [][]string {
	var rows [][]string
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
		rows = append(rows, row)
	}
	return rows
}

// of returns a system's samples in a cell that have figures.
func (r *Report) of(cell Cell, system string) []Sample {
	var found []Sample
	for _, s := range r.Samples {
		if s.ok() && s.Cell == cell && s.System == system {
			found = append(found, s)
		}
	}
	return found
}

func heads(cols []column) []string {
	row := []string{"system"}
	for _, c := range cols {
		row = append(row, c.head)
	}
	return row
}

// writeAligned writes a title and rows with aligned columns.
func writeAligned(w io.Writer, title string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n") // a tabwriter keeps its first error for Flush
	if title != "" {
		fmt.Fprintf(t, "%s\n", title)
	}
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

func withSpread(digits int, figure func(Sample) float64) func([]Sample) string {
	return func(samples []Sample) string { return over(samples, figure).format(digits) }
}

func median(digits int, figure func(Sample) float64) func([]Sample) string {
	return func(samples []Sample) string {
		return fmt.Sprintf("%.*f", digits, over(samples, figure).median)
	}
}

func cpuMicros(s Sample) float64 { return micros(s.CPU()) }

func mebi(u load.Usage) float64 { return float64(u.Peak) / (1 << 20) }

func (s spread) format(digits int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.median, digits, s.min, digits, s.max)
}

// String says in a line how long and how often was measured.
func (s Settings) String() string {
	return fmt.Sprintf("%d rounds of %v and %d calls at least, after %v; shared mode: %d connections",
		s.Rounds, s.Duration, s.Calls, s.Warmup, s.Conns)
}
