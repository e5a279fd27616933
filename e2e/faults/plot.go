package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The plot's size in SVG units, and the range of its logarithmic vertical axis.
const (
	plotWidth, plotHeight = 720.0, 260.0
	plotLeft, plotBottom  = 70.0, 30.0
	plotTop               = 24.0

	plotLeast = time.Millisecond
	plotMost  = 200 * time.Second
)

func colours() map[string]string {
	return map[string]string{sysTandem: "#c0262c", sysGRPC: "#2463a8", sysRPCX: "#4a8f3c"}
}

// plot returns an SVG. For the last arm of each system it shows the latency of the slowest
// call that began in each second, and a cross above each second in which a call began that
// failed.
func plot(o *outcome) string {
	last := map[string]*armResult{}
	seconds := 1.0
	for _, a := range o.arms {
		if a.Control || a.invalid != nil {
			continue
		}
		last[a.System] = a
		for _, e := range a.entries {
			seconds = max(seconds, math.Ceil(e.at().Sub(a.start).Seconds()))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="11">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="white"/>`+"\n", plotWidth, plotHeight)
	axes(&b, seconds)
	n := 0
	for _, system := range []string{sysTandem, sysGRPC, sysRPCX} {
		if a := last[system]; a != nil {
			drawFault(&b, a, seconds)
			drawArm(&b, a, seconds, n)
			n++
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func plotX(second, seconds float64) float64 {
	return plotLeft + second/seconds*(plotWidth-plotLeft-10)
}

func plotY(d time.Duration) float64 {
	d = min(max(d, plotLeast), plotMost)
	share := math.Log(float64(d)/float64(plotLeast)) / math.Log(float64(plotMost)/float64(plotLeast))
	return plotHeight - plotBottom - share*(plotHeight-plotBottom-plotTop-20)
}

func axes(b *strings.Builder, seconds float64) {
	for d := plotLeast; d <= plotMost; d *= 10 {
		y := plotY(d)
		fmt.Fprintf(b, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%v</text>`+"\n",
			plotLeft, plotWidth-10, y, y, plotLeft-6, y+4, d)
	}
	step := max(1, math.Round(seconds/8))
	for s := 0.0; s <= seconds; s += step {
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%g s</text>`+"\n", plotX(s, seconds), plotHeight-10, s)
	}
}

// drawFault marks the time of the fault in tandem's arm.
func drawFault(b *strings.Builder, a *armResult, seconds float64) {
	if a.began.IsZero() || a.System != sysTandem {
		return
	}
	from, to := plotX(a.began.Sub(a.start).Seconds(), seconds), plotX(min(seconds, a.ended.Sub(a.start).Seconds()), seconds)
	fmt.Fprintf(b, `<rect x="%.1f" y="%g" width="%.1f" height="%g" fill="#f3ead0" fill-opacity="0.6"/>`+"\n",
		from, plotTop, max(1, to-from), plotHeight-plotBottom-plotTop)
}

func drawArm(b *strings.Builder, a *armResult, seconds float64, n int) {
	colour := colours()[a.System]
	slowest, failed := map[int]time.Duration{}, map[int]bool{}
	for _, e := range a.entries {
		s := int(e.at().Sub(a.start).Seconds())
		slowest[s] = max(slowest[s], e.took())
		failed[s] = failed[s] || !e.ok()
	}
	fmt.Fprintf(b, `<text x="%g" y="14" fill="%s">%s %s</text>`+"\n", plotLeft+float64(n)*150, colour, a.System, a.CC)
	var points []string
	for s := range int(seconds) + 1 {
		x := plotX(float64(s), seconds)
		if d, ok := slowest[s]; ok {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, plotY(d)))
		}
		if failed[s] {
			fmt.Fprintf(b, `<text x="%.1f" y="%g" fill="%s" text-anchor="middle">×</text>`+"\n", x, plotTop+8+float64(n)*7, colour)
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(points, " "), colour)
}
