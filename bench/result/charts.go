package result

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/chart"
	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/harness"
)

// subject is the system that stands out in plots.
const subject = "tandem"

// Charts are the report's plots: throughput over the number of callers (but not
// in an open loop, where it is given), CPU a call, and percentiles for each cell.
// Their points are medians and spreads over the rounds.
func Charts(r *harness.Report) []chart.Chart {
	var all []chart.Chart
	for _, cells := range byCircumstances(r.Cells()) {
		if cells[0].Rate == 0 {
			all = append(all, throughput(r, cells))
		}
		all = append(all, cpu(r, cells))
		for _, cell := range cells {
			all = append(all, latency(r, cell))
		}
	}
	return slices.DeleteFunc(all, func(c chart.Chart) bool { return len(c.Series) == 0 })
}

// byCircumstances puts cells together that differ in the number of callers
// alone. Rates that are parts of a peak differ too: each cell has its own peak.
func byCircumstances(cells []harness.Cell) [][]harness.Cell {
	var groups [][]harness.Cell
	group := map[harness.Cell]int{}
	for _, cell := range cells {
		key := cell
		key.Callers = 0
		if key.Percent > 0 {
			key.Rate = 0
		}
		i, seen := group[key]
		if !seen {
			i = len(groups)
			group[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], cell)
	}
	return groups
}

// throughput plots calls a second over the number of callers.
func throughput(r *harness.Report, cells []harness.Cell) chart.Chart {
	c := chart.Chart{
		Name: name("throughput", cells[0]), Title: "Calls a second, " + circumstances(r, cells[0]),
		X: "callers", Y: "calls/s", LogX: len(cells) > 1,
	}
	for _, cell := range cells {
		c.Ticks = append(c.Ticks, chart.Tick{At: float64(cell.Callers), Label: strconv.Itoa(cell.Callers)})
	}
	for i, system := range r.Settings.Systems {
		s := series(i, system)
		for _, cell := range cells {
			if spread, ok := r.Over(cell, system, harness.Sample.TPS); ok {
				s.Points = append(s.Points, point(float64(cell.Callers), spread))
			}
		}
		c.Series = appendFilled(c.Series, s)
	}
	slices.SortStableFunc(c.Series, func(a, b chart.Series) int { return highest(b) - highest(a) })
	return c
}

// highest is a series' last value: the legend has the order of the lines' ends.
func highest(s chart.Series) int { return int(s.Points[len(s.Points)-1].Y) }

// cpu plots both sides' time on a processor for a call, a group of bars for
// each system. It is empty where the servers' is not known.
func cpu(r *harness.Report, cells []harness.Cell) chart.Chart {
	if cells[0].Deployment == harness.Elsewhere {
		return chart.Chart{}
	}
	c := chart.Chart{
		Name: name("cpu", cells[0]), Title: "CPU a call, client and server together, " + circumstances(r, cells[0]),
		Y: "µs", Bars: true,
	}
	var systems []string
	for _, system := range r.Settings.Systems {
		if slices.ContainsFunc(cells, func(cell harness.Cell) bool { _, ok := r.Over(cell, system, CPU); return ok }) {
			c.Ticks = append(c.Ticks, chart.Tick{At: float64(len(systems)), Label: system})
			systems = append(systems, system)
		}
	}
	for i, cell := range cells {
		s := chart.Series{Name: fmt.Sprintf("%d callers", cell.Callers), Style: i}
		for i, system := range systems {
			spread, _ := r.Over(cell, system, CPU) // a system that failed in this cell alone has a bar of no height
			s.Points = append(s.Points, point(float64(i), spread))
		}
		c.Series = appendFilled(c.Series, s)
	}
	return c
}

// percentiles are what a sample keeps of its distribution. At is the number of
// nines: each is as far from the last as it is rarer.
var percentiles = []struct {
	tick chart.Tick
	of   func(harness.Sample) time.Duration
}{
	{chart.Tick{At: 0.301, Label: "p50"}, func(s harness.Sample) time.Duration { return s.Client.Latency.P50 }},
	{chart.Tick{At: 1, Label: "p90"}, func(s harness.Sample) time.Duration { return s.Client.Latency.P90 }},
	{chart.Tick{At: 2, Label: "p99"}, func(s harness.Sample) time.Duration { return s.Client.Latency.P99 }},
	{chart.Tick{At: 3, Label: "p99.9"}, func(s harness.Sample) time.Duration { return s.Client.Latency.P999 }},
	{chart.Tick{At: 4, Label: "p99.99"}, func(s harness.Sample) time.Duration { return s.Client.Latency.P9999 }},
}

// latency plots the percentiles of a cell.
func latency(r *harness.Report, cell harness.Cell) chart.Chart {
	c := chart.Chart{
		Name: fmt.Sprintf("%s-%d", name("latency", cell), cell.Callers), LogY: true,
		Title: fmt.Sprintf("Latency, %d callers, %s", cell.Callers, circumstances(r, cell)), X: "percentile", Y: "µs",
	}
	for _, p := range percentiles {
		c.Ticks = append(c.Ticks, p.tick)
	}
	for i, system := range r.Settings.Systems {
		s := series(i, system)
		for _, p := range percentiles {
			spread, ok := r.Over(cell, system, func(s harness.Sample) float64 { return micros(p.of(s)) })
			if ok && spread.Min > 0 { // a logarithm has no place for nothing
				s.Points = append(s.Points, point(p.tick.At, spread))
			}
		}
		c.Series = appendFilled(c.Series, s)
	}
	slices.SortStableFunc(c.Series, func(a, b chart.Series) int { return highest(b) - highest(a) })
	return c
}

// name is a file's name without its ending.
func name(figure string, c harness.Cell) string {
	text := figure + "-" + string(c.Mode)
	if isAway(c) {
		text += "-" + string(c.Deployment)
	}
	if c.Work > 0 {
		text += "-work" + strings.ReplaceAll(c.Work.String(), "µ", "u")
	}
	if c.Percent > 0 {
		text += fmt.Sprintf("-rate%dpercent", c.Percent)
	} else if c.Rate > 0 {
		text += fmt.Sprintf("-rate%d", c.Rate)
	}
	return text
}

// isAway tells whether servers and client are not beside each other.
func isAway(c harness.Cell) bool { return c.Deployment != "" && c.Deployment != harness.Same }

// circumstances is what the cells of a plot have in common, for its title.
func circumstances(r *harness.Report, c harness.Cell) string {
	text := "one connection a caller"
	if c.Mode == harness.Shared {
		text = fmt.Sprintf("%d shared connections", r.Settings.Conns)
	}
	if isAway(c) {
		text += ", " + string(c.Deployment)
	}
	if c.Work > 0 {
		text += fmt.Sprintf(", a handler of %v", c.Work)
	}
	if c.Percent > 0 {
		text += fmt.Sprintf(", at %d %% of the slowest system's peak", c.Percent)
	} else if c.Rate > 0 {
		text += fmt.Sprintf(", %d calls/s begin", c.Rate)
	}
	return text
}

// series is the i-th system's, still without points.
func series(i int, system string) chart.Series {
	return chart.Series{Name: system, Style: i, Strong: system == subject, Dashed: isFloor(system)}
}

// appendFilled leaves out a series without points.
func appendFilled(all []chart.Series, s chart.Series) []chart.Series {
	if len(s.Points) == 0 {
		return all
	}
	return append(all, s)
}

func point(x float64, s figures.Spread) chart.Point {
	return chart.Point{X: x, Y: s.Median, Low: s.Min, High: s.Max}
}

func isFloor(system string) bool { return strings.HasPrefix(system, "floor-") }

// CPU is both sides' time on a processor for a call, in microseconds.
func CPU(s harness.Sample) float64 { return micros(s.CPU()) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
