package chart

import (
	"bytes"
	"fmt"
	"html"
	"strconv"
	"strings"
)

// Sizes in pixels. The legend is next to the plot, where it hides nothing.
const (
	width, height = 880, 430
	left, right   = 80.0, 630.0
	top, bottom   = 56.0, 350.0
	titleWidth    = 85 // characters of a line
	fewPoints     = 25 // lines with more have no marks
)

// palette are the colours of the series by Style.
var palette = []string{
	"#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf",
	"#bcbd22", "#1b4f3a", "#6a3d9a", "#b15928", "#00429d", "#e6ab02", "#66a61e",
}

// look is the colour and the stroke of a series.
func (s Series) look() (colour, stroke string) {
	switch {
	case s.Strong:
		return "#d62728", `stroke-width="2.5"`
	case s.Dashed:
		return []string{"#555555", "#999999"}[s.Style%2], `stroke-width="1.5" stroke-dasharray="6 3"`
	}
	return palette[s.Style%len(palette)], `stroke-width="1.3"`
}

// drawing is an SVG that is being written.
type drawing struct {
	bytes.Buffer
	chart Chart
	x, y  axis
}

// SVG draws the chart. The same chart gives the same bytes.
func (c Chart) SVG() []byte {
	d := drawing{chart: c}
	d.x, d.y = c.axes()
	fmt.Fprintf(&d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(&d, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	for i, line := range fold(c.Title, titleWidth) {
		d.text(left, 18+15*float64(i), line, `font-size="13"`)
	}
	d.frame()
	for i, s := range c.Series {
		if c.Bars {
			d.bars(i, s)
		} else {
			d.line(s)
		}
		d.legend(i, s)
	}
	d.WriteString("</svg>\n")
	return d.Bytes()
}

// fold breaks a text after commas into lines of at most that many characters.
func fold(text string, most int) (lines []string) {
	line := ""
	for _, part := range strings.SplitAfter(text, ", ") {
		if line != "" && len(line+part) > most {
			lines, line = append(lines, strings.TrimSpace(line)), ""
		}
		line += part
	}
	return append(lines, line)
}

// frame draws the axes with their marks and names.
func (d *drawing) frame() {
	for _, t := range d.y.ticks() {
		y := d.y.at(t.At)
		d.stroke(left, y, right, y, "#e5e5e5")
		d.text(left-6, y+4, t.Label, `text-anchor="end"`)
	}
	marks := d.chart.Ticks
	if len(marks) == 0 {
		marks = d.x.ticks()
	}
	for _, t := range marks {
		x := d.x.at(t.At)
		d.stroke(x, top, x, bottom, "#e5e5e5")
		if d.chart.Bars {
			d.text(x, bottom+14, t.Label, fmt.Sprintf(`text-anchor="end" transform="rotate(-30 %s %s)"`, short(x), short(bottom+14)))
		} else {
			d.text(x, bottom+16, t.Label, `text-anchor="middle"`)
		}
	}
	d.stroke(left, bottom, right, bottom, "#333")
	d.stroke(left, top, left, bottom, "#333")
	d.text((left+right)/2, height-38, d.chart.X, `text-anchor="middle"`)
	d.text(8, top-8, d.chart.Y, "")
}

// line draws a series with a mark and a spread at each point.
func (d *drawing) line(s Series) {
	colour, stroke := s.look()
	fmt.Fprintf(d, `<g stroke="%s" fill="none"><polyline %s points="`, colour, stroke)
	for i, p := range s.Points {
		if i > 0 {
			d.WriteByte(' ')
		}
		d.WriteString(short(d.x.at(p.X)) + "," + short(d.y.at(p.Y)))
	}
	d.WriteString(`"/>`)
	for _, p := range s.Points {
		x := d.x.at(p.X)
		if p.Low != p.Y || p.High != p.Y {
			fmt.Fprintf(d, `<path d="M%s %sV%s"/>`, short(x), short(d.y.at(p.Low)), short(d.y.at(p.High)))
		}
		if len(s.Points) <= fewPoints {
			fmt.Fprintf(d, `<circle cx="%s" cy="%s" r="2.5" fill="%s"/>`, short(x), short(d.y.at(p.Y)), colour)
		}
	}
	d.WriteString("</g>\n")
}

// bars draws the i-th series beside the others at every mark.
func (d *drawing) bars(i int, s Series) {
	colour, _ := s.look()
	each := 0.8 / float64(len(d.chart.Series))
	fmt.Fprintf(d, `<g fill="%s">`, colour)
	for _, p := range s.Points {
		from := p.X - 0.4 + each*float64(i)
		x, y := d.x.at(from), d.y.at(p.Y)
		fmt.Fprintf(d, `<rect x="%s" y="%s" width="%s" height="%s"/>`, short(x), short(y), short(d.x.at(from+each)-x), short(bottom-y))
	}
	d.WriteString("</g>\n")
}

// legend names the i-th series beside the plot.
func (d *drawing) legend(i int, s Series) {
	const x = right + 14
	y := top + 6 + 17*float64(i)
	colour, stroke := s.look()
	if d.chart.Bars {
		stroke = `stroke-width="8"`
	}
	fmt.Fprintf(d, `<path d="M%s %sh20" stroke="%s" %s/>`, short(x), short(y), colour, stroke)
	d.text(x+26, y+4, s.Name, "")
}

func (d *drawing) stroke(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(d, `<path d="M%s %sL%s %s" stroke="%s"/>`+"\n", short(x1), short(y1), short(x2), short(y2), colour)
}

func (d *drawing) text(x, y float64, text, attributes string) {
	if text != "" {
		fmt.Fprintf(d, `<text x="%s" y="%s" %s>%s</text>`+"\n", short(x), short(y), attributes, html.EscapeString(text))
	}
}

// short formats a pixel with one digit after the point, or none.
func short(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}
