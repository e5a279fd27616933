package loadtest

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of charts in pixels.
const (
	chartWidth, chartHeight = 860, 340
	plotLeft, plotRight     = 72.0, 840.0
	plotTop, plotBottom     = 40.0, 292.0
	titleWidth              = 120 // in characters
)

// chartStyle has the colors of charts, for a light and a dark page.
const chartStyle = `<style>
.tandem-chart{font:12px system-ui,sans-serif;fill:#333}
.tandem-chart .back{fill:#fff}.tandem-chart .grid{stroke:#ddd}.tandem-chart .line{fill:none;stroke:#0b62c4;stroke-width:2}
.tandem-chart .old{stroke:#777;stroke-dasharray:6 4}.tandem-chart .bad{stroke:#c4260b}
@media (prefers-color-scheme:dark){.tandem-chart{fill:#ddd}.tandem-chart .back{fill:#16191d}.tandem-chart .grid{stroke:#3a3f46}
.tandem-chart .line{stroke:#6cb0ff}.tandem-chart .old{stroke:#999}.tandem-chart .bad{stroke:#ff7a66}}
</style>
`

// chart is an SVG of lines.
type chart struct {
	title  string
	series []series
	xTicks []tick
	logY   bool                 // of values above 0
	shown  func(float64) string // of values
}

// series is a line of a chart.
type series struct {
	name   string
	class  string // of its style, besides line
	points [][2]float64
}

// tick is a mark of the horizontal axis.
type tick struct {
	at    float64
	label string
}

// svg draws the chart.
func (c *chart) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="tandem-chart" role="img" viewBox="0 0 %d %d">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, "<title>%s</title>\n%s"+`<rect class="back" width="100%%" height="100%%"/>`+"\n", html.EscapeString(c.title), chartStyle)
	text(&b, plotLeft, 20, "start", c.title)
	low, high, ticks := c.scale()
	x := scaleOf(c.xTicks[0].at, c.xTicks[len(c.xTicks)-1].at, plotLeft, plotRight)
	y := scaleOf(low, high, plotBottom, plotTop)
	for _, v := range ticks {
		at := y(c.height(v))
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fH%.1f"/>`+"\n", plotLeft, at, plotRight)
		text(&b, plotLeft-6, at+4, "end", c.shown(v))
	}
	for _, t := range c.xTicks {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fV%.1f"/>`+"\n", x(t.at), plotTop, plotBottom)
		text(&b, x(t.at), plotBottom+16, "middle", t.label)
	}
	for i, s := range c.series {
		fmt.Fprintf(&b, `<polyline class="line %s" points="`, s.class)
		for _, p := range s.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(p[0]), y(c.height(p[1])))
		}
		b.WriteString(`"/>` + "\n")
		left := plotLeft + float64(i)*200
		fmt.Fprintf(&b, `<path class="line %s" d="M%.1f %dh24"/>`+"\n", s.class, left, chartHeight-12)
		text(&b, left+30, chartHeight-8, "start", s.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// text writes a text at a place.
func text(b *strings.Builder, x, y float64, anchor, words string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(words))
}

// scaleOf maps values from low to high to pixels.
func scaleOf(low, high, from, to float64) func(float64) float64 {
	if high <= low {
		high = low + 1
	}
	return func(v float64) float64 { return from + (v-low)/(high-low)*(to-from) }
}

// height returns where a value is on the vertical axis.
func (c *chart) height(v float64) float64 {
	const least = 1e-4 // milliseconds: the unit of results
	if c.logY {
		return math.Log10(max(v, least))
	}
	return v
}

// scale returns the ends of the vertical axis, as heights, and the values of its marks.
func (c *chart) scale() (low, high float64, ticks []float64) {
	least, most := math.Inf(1), 0.0
	for _, s := range c.series {
		for _, p := range s.points {
			least, most = min(least, p[1]), max(most, p[1])
		}
	}
	if least > most { // there are no points
		least, most = 1, 1
	}
	if !c.logY {
		const marks = 5
		step := roundStep(most / marks)
		for v := 0.0; v < most+step; v += step {
			ticks = append(ticks, v)
		}
		return 0, ticks[len(ticks)-1], ticks
	}
	low, high = math.Floor(c.height(least)), math.Ceil(c.height(most))
	for e := low; e <= max(high, low+1); e++ {
		ticks = append(ticks, math.Pow(10, e)) //nolint:mnd // a decimal axis
	}
	return low, max(high, low+1), ticks
}

// roundStep returns the smallest of 1, 2, 5, 10, 20 … that is at least v.
func roundStep(v float64) float64 {
	for power := 1.0; ; power *= 10 {
		for _, f := range []float64{1, 2, 5} {
			if f*power >= v {
				return f * power
			}
		}
	}
}

// percentileChart draws the latencies by percentile. Each further digit 9 has the same width.
func percentileChart(res *Result) string {
	nines := func(p float64) float64 { return -math.Log10(1 - p/100) }
	end := 1.0
	line := func(name, class string, curve []Percentile) series {
		s := series{name: name, class: class}
		for _, p := range curve {
			if p.Percentile < 100 {
				s.points = append(s.points, [2]float64{nines(p.Percentile), p.Latency})
				end = max(end, nines(p.Percentile))
			}
		}
		return s
	}
	title := []rune("latency by percentile: " + res.Method + ", " + res.Load.Text)
	if len(title) > titleWidth {
		title = append(title[:titleWidth-1], '…')
	}
	c := chart{title: string(title), logY: true, shown: shown, series: []series{line("latency", "", res.Percentiles)}}
	if res.Compared != nil {
		c.series = append(c.series, line("before", "old", res.Compared.curve))
	}
	for _, p := range []string{"0", "50", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999", "99.999999", "99.9999999"} {
		var v float64
		if _, err := fmt.Sscan(p, &v); err == nil && nines(v) <= math.Ceil(end) {
			c.xTicks = append(c.xTicks, tick{nines(v), "p" + p})
		}
	}
	return c.svg()
}

// timeCharts draws the calls a second and the percentiles of each second.
func timeCharts(res *Result) []string {
	seconds := condensed(res.Seconds)
	if len(seconds) < 2 { //nolint:mnd // a line has two points
		return nil
	}
	line := func(name, class string, of func(*Second) float64) series {
		s := series{name: name, class: class}
		for i := range seconds {
			if v := of(&seconds[i]); v >= 0 {
				s.points = append(s.points, [2]float64{float64(seconds[i].At), v})
			}
		}
		return s
	}
	first, last := seconds[0].At, seconds[len(seconds)-1].At
	var ticks []tick
	step := max(1, int(roundStep(float64(last-first)/10))) //nolint:mnd // ten marks
	for at := first; at < last; at += step {
		ticks = append(ticks, tick{float64(at), fmt.Sprintf("%d s", at)})
	}
	ticks = append(ticks, tick{float64(last), ""})
	rates := chart{title: "calls a second", shown: number, xTicks: ticks, series: []series{
		line("succeeded", "", func(s *Second) float64 { return float64(s.Rate) }),
		line("failed or not sent", "bad", func(s *Second) float64 { return float64(s.Failed + s.NotSent) }),
	}}
	tails := chart{title: "latency by second", shown: shown, logY: true, xTicks: ticks, series: []series{
		line("p99", "", func(s *Second) float64 { return known(s.P99, s.Rate) }),
		line("p50", "old", func(s *Second) float64 { return known(s.P50, s.Rate) }),
	}}
	return []string{rates.svg(), tails.svg()}
}

// known returns a latency of some calls, a negative number if there are none.
func known(ms float64, calls int64) float64 {
	if calls == 0 {
		return -1
	}
	return ms
}

// condensed returns at most some hundred seconds, each the worst of those that it stands for.
func condensed(all []Second) []Second {
	const most = 400
	each := (len(all) + most - 1) / most
	if each <= 1 {
		return all
	}
	var list []Second
	for i, s := range all {
		if i%each == 0 {
			list = append(list, s)
			continue
		}
		l := &list[len(list)-1]
		l.Rate, l.Failed, l.NotSent = min(l.Rate, s.Rate), max(l.Failed, s.Failed), max(l.NotSent, s.NotSent)
		l.P50, l.P90, l.P99 = max(l.P50, s.P50), max(l.P90, s.P90), max(l.P99, s.P99)
	}
	return list
}
