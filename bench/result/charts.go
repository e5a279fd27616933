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

// subject is the system that is highlighted in plots.
const subject = "tandem"

// Charts returns the report's plots over the number of callers: calls a second (except in
// an open loop, where they are given), p99, and processor time for a call. Their points are
// medians and spreads over the rounds.
func Charts(r *harness.Report) []chart.Chart {
	var all []chart.Chart
	for _, cells := range byCircumstances(r.Cells()) {
		where := circumstances(r, cells[0])
		if cells[0].Rate == 0 {
			all = append(all, overCallers(r, cells, harness.Sample.TPS,
				chart.Chart{Name: name("throughput", cells[0]), Title: "Calls a second, " + where, Y: "calls/s"}))
		}
		all = append(all, cpu(r, cells), overCallers(r, cells, p99,
			chart.Chart{Name: name("p99", cells[0]), Title: "The slowest hundredth of calls (p99), " + where, Y: "µs", LogY: true}))
	}
	return slices.DeleteFunc(all, func(c chart.Chart) bool { return len(c.Series) == 0 })
}

func p99(s harness.Sample) float64 { return micros(s.Client.Latency.P99) }

// byCircumstances groups cells that differ only in the number of callers.
func byCircumstances(cells []harness.Cell) [][]harness.Cell {
	var groups [][]harness.Cell
	group := map[harness.Cell]int{}
	for _, cell := range cells {
		key := cell
		key.Callers = 0
		i, seen := group[key]
		if !seen {
			i = len(groups)
			group[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], cell)
	}
	return groups
}

// overCallers plots a figure over the number of callers.
func overCallers(r *harness.Report, cells []harness.Cell, figure func(harness.Sample) float64, c chart.Chart) chart.Chart {
	c.X, c.LogX = "callers", len(cells) > 1
	for _, cell := range cells {
		c.Ticks = append(c.Ticks, chart.Tick{At: float64(cell.Callers), Label: strconv.Itoa(cell.Callers)})
	}
	for i, system := range r.Settings.Systems {
		s := chart.Series{Name: system, Style: i, Strong: system == subject, Dashed: isFloor(system)}
		for _, cell := range cells {
			if spread, ok := r.Over(cell, system, figure); ok {
				s.Points = append(s.Points, point(float64(cell.Callers), spread))
			}
		}
		c.Series = appendFilled(c.Series, s)
	}
	slices.SortStableFunc(c.Series, func(a, b chart.Series) int { return highest(b) - highest(a) })
	return c
}

// highest returns a series' last value: the legend is in the order of the lines' ends.
func highest(s chart.Series) int { return int(s.Points[len(s.Points)-1].Y) }

// cpu plots both sides' processor time for a call, a group of bars for each system. It is
// empty if the servers' is not known.
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
			spread, _ := r.Over(cell, system, CPU) // a system that failed in this cell only has a bar of zero height
			s.Points = append(s.Points, point(float64(i), spread))
		}
		c.Series = appendFilled(c.Series, s)
	}
	return c
}

// name returns a file's name without its ending.
func name(figure string, c harness.Cell) string {
	text := figure + "-" + string(c.Mode)
	if isAway(c) {
		text += "-" + string(c.Deployment)
	}
	if c.Work > 0 {
		text += "-work" + strings.ReplaceAll(c.Work.String(), "µ", "u")
	}
	if c.Rate > 0 {
		text += fmt.Sprintf("-rate%d", c.Rate)
	}
	return text
}

// isAway reports whether servers and clients are in different namespaces or hosts.
func isAway(c harness.Cell) bool { return c.Deployment != "" && c.Deployment != harness.Same }

// circumstances returns what the cells of a plot have in common, for its title.
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
	if c.Rate > 0 {
		text += fmt.Sprintf(", %d calls/s begin", c.Rate)
	}
	return text
}

// appendFilled appends s unless it has no points.
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

// CPU is both sides' processor time for a call, in microseconds.
func CPU(s harness.Sample) float64 { return micros(s.CPU()) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
