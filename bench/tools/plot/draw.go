package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tandem-rpc/tandem/bench/chart"
)

// Sizes of a plot. The legend stands beside it, where it hides nothing.
const (
	width       = 22 * vg.Centimeter
	height      = 12 * vg.Centimeter
	legendWidth = 3.4 * vg.Centimeter
	margin      = 3 * vg.Millimeter
	titleWidth  = 15 * vg.Centimeter
)

// palette has a colour for each series, as far as it reaches.
var palette = []color.Color{
	rgb(0x1f77b4), rgb(0xff7f0e), rgb(0x2ca02c), rgb(0x9467bd), rgb(0x8c564b), rgb(0xe377c2), rgb(0x17becf),
	rgb(0xbcbd22), rgb(0x1b4f3a), rgb(0x6a3d9a), rgb(0xb15928), rgb(0x00429d), rgb(0xe6ab02), rgb(0x66a61e),
}

var (
	strong = rgb(0xd62728)
	greys  = []color.Color{rgb(0x555555), rgb(0x999999)}
)

func rgb(hex uint32) color.Color {
	return color.RGBA{R: uint8(hex >> 16 & 0xff), G: uint8(hex >> 8 & 0xff), B: uint8(hex & 0xff), A: 0xff}
}

// render writes a chart in a format that the library knows.
func render(c chart.Chart, format string, w io.Writer) error {
	if err := check(c); err != nil {
		return err
	}
	p := newPlot(c)
	var legend plot.Legend
	var err error
	if c.Bars {
		legend, err = addBars(p, c.Series)
	} else {
		legend, err = addLines(p, c.Series)
	}
	if err != nil {
		return err
	}
	canvas, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return err
	}
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	p.Draw(draw.Crop(all, margin, -legendWidth, margin, -margin))
	legend.Draw(draw.Crop(all, width-legendWidth+margin, 0, 0, -10*vg.Millimeter))
	_, err = canvas.WriteTo(w)
	return err
}

// check finds what the library would panic at.
func check(c chart.Chart) error {
	if len(c.Series) == 0 {
		return errors.New("no series")
	}
	for _, s := range c.Series {
		if len(s.Points) == 0 {
			return fmt.Errorf("series %q has no points", s.Name)
		}
		for _, p := range s.Points {
			if c.LogX && p.X <= 0 || c.LogY && p.Low <= 0 {
				return fmt.Errorf("series %q: the point %+v is not above 0, as a logarithmic axis needs it", s.Name, p)
			}
		}
	}
	return nil
}

// fold breaks a text behind commas into lines that fit.
func fold(text string, fits func(line string) bool) string {
	var folded, line string
	for _, part := range strings.SplitAfter(text, ", ") {
		if line != "" && !fits(line+part) {
			folded += strings.TrimSuffix(line, " ") + "\n"
			line = ""
		}
		line += part
	}
	return folded + line
}

func newPlot(c chart.Chart) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = c.X, c.Y
	p.Title.Padding = 4 * vg.Millimeter
	for _, style := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font,
	} {
		style.Variant = "Sans"
	}
	p.Title.Text = fold(c.Title, func(line string) bool { return p.Title.TextStyle.Width(line) < titleWidth })
	p.Y.Tick.Marker = numbered{plot.DefaultTicks{}}
	if c.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, numbered{plot.LogTicks{Prec: -1}}
	}
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, numbered{plot.LogTicks{Prec: -1}}
	} else {
		p.Y.Min = 0
	}
	if len(c.Ticks) > 0 {
		p.X.Tick.Marker = ticks(c.Ticks)
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = rgb(0xe5e5e5), rgb(0xe5e5e5)
	p.Add(grid)
	return p
}

// newLegend is empty, in the plot's small type.
func newLegend() plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	l.TextStyle.Font.Variant = "Sans"
	l.TextStyle.Font.Size = vg.Points(9)
	l.Padding = vg.Points(2)
	return l
}

// addLines draws each series as a line with a mark and a spread at each point.
func addLines(p *plot.Plot, series []chart.Series) (plot.Legend, error) {
	legend := newLegend()
	for _, s := range series {
		style := lineStyle(s)
		line, err := plotter.NewLine(points(s.Points))
		if err != nil {
			return legend, fmt.Errorf("series %q: %w", s.Name, err)
		}
		line.LineStyle = style
		marks := &plotter.Scatter{XYs: line.XYs}
		marks.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: vg.Points(3), Shape: shapes[s.Style%len(shapes)]}
		bars, err := plotter.NewYErrorBars(points(s.Points))
		if err != nil {
			return legend, fmt.Errorf("series %q: %w", s.Name, err)
		}
		bars.LineStyle.Color = style.Color
		p.Add(line, marks, bars)
		legend.Add(s.Name, line, marks)
	}
	return legend, nil
}

// addBars draws the series side by side at every mark of the axis.
func addBars(p *plot.Plot, series []chart.Series) (plot.Legend, error) {
	legend := newLegend()
	each := vg.Millimeter * 9 / vg.Length(len(series))
	for i, s := range series {
		bars, err := plotter.NewBarChart(values(s.Points), each)
		if err != nil {
			return legend, fmt.Errorf("series %q: %w", s.Name, err)
		}
		bars.Color = lineStyle(s).Color
		bars.LineStyle.Width = 0
		bars.Offset = each * (vg.Length(i) - vg.Length(len(series)-1)/2)
		p.Add(bars)
		legend.Add(s.Name, bars)
	}
	// The first and the last bars need room beside their marks, all of them above.
	p.X.Min, p.X.Max = p.X.Min-0.5, p.X.Max+0.5
	p.Y.Max *= 1.05
	p.X.Tick.Label.Rotation = math.Pi / 5
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
	return legend, nil
}

// shapes tell lines apart where colours don't.
var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{},
	draw.CrossGlyph{}, draw.PlusGlyph{},
}

// lineStyle is how a series' line looks; its marks and bars have its colour.
func lineStyle(s chart.Series) draw.LineStyle {
	switch {
	case s.Strong:
		return draw.LineStyle{Color: strong, Width: vg.Points(2.5)}
	case s.Dashed:
		return draw.LineStyle{Color: greys[s.Style%len(greys)], Width: vg.Points(1.5), Dashes: []vg.Length{vg.Points(6), vg.Points(3)}}
	}
	return draw.LineStyle{Color: palette[s.Style%len(palette)], Width: vg.Points(1.2)}
}

// points are a series as the library takes it.
type points []chart.Point

func (p points) Len() int                            { return len(p) }
func (p points) XY(i int) (x, y float64)             { return p[i].X, p[i].Y }
func (p points) YError(i int) (below, above float64) { return p[i].Y - p[i].Low, p[i].High - p[i].Y }

// values are bars as the library takes them.
type values []chart.Point

func (v values) Len() int            { return len(v) }
func (v values) Value(i int) float64 { return v[i].Y }

// ticks are the marks that a chart names.
type ticks []chart.Tick

// Ticks returns them whatever the ends of the axis.
func (t ticks) Ticks(_, _ float64) []plot.Tick {
	var all []plot.Tick
	for _, tick := range t {
		all = append(all, plot.Tick{Value: tick.At, Label: tick.Label})
	}
	return all
}

// numbered writes the marks of another ticker with thousands apart and without
// exponents.
type numbered struct{ plot.Ticker }

// Ticks returns the other ticker's.
func (n numbered) Ticks(low, high float64) []plot.Tick {
	all := n.Ticker.Ticks(low, high)
	for i, t := range all {
		if t.Label != "" {
			all[i].Label = grouped(t.Value)
		}
	}
	return all
}

// grouped writes 1234567 as 1,234,567.
func grouped(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if v != math.Trunc(v) {
		return text
	}
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
