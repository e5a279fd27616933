// Package chart describes plots as data and draws them as SVG.
package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Chart is one plot.
type Chart struct {
	Name   string   `json:"name"` // name of the file, without its ending
	Title  string   `json:"title"`
	X      string   `json:"x"` // what the axis means, and its unit
	Y      string   `json:"y"`
	LogX   bool     `json:"log_x,omitempty"`
	LogY   bool     `json:"log_y,omitempty"`
	Ticks  []Tick   `json:"ticks,omitempty"` // marks of the horizontal axis; none means round numbers
	Bars   bool     `json:"bars,omitempty"`  // series of bars side by side instead of lines; X of a point counts from 0
	Series []Series `json:"series"`
}

// Tick is a mark of the horizontal axis.
type Tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// Series is one line, or one colour of bars.
type Series struct {
	Name   string  `json:"name"`
	Style  int     `json:"style"`            // number of its colour, the same in all charts
	Strong bool    `json:"strong,omitempty"` // drawn thicker, in red
	Dashed bool    `json:"dashed,omitempty"` // grey and dashed
	Points []Point `json:"points"`
}

// Point is a value and its spread; no spread is drawn where Low and High are
// both Y.
type Point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Read reads a JSON list of charts.
func Read(r io.Reader) ([]Chart, error) {
	var charts []Chart
	if err := json.NewDecoder(r).Decode(&charts); err != nil {
		return nil, fmt.Errorf("chart: a JSON list of charts was expected: %w", err)
	}
	return charts, nil
}

// Draw writes every chart into the folder dir, as NAME.svg.
func Draw(dir string, charts []Chart) error {
	for _, c := range charts {
		if err := c.check(); err != nil {
			return fmt.Errorf("chart: %q: %w", c.Name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, c.Name+".svg"), c.SVG(), 0o644); err != nil {
			return fmt.Errorf("chart: %w", err)
		}
	}
	return nil
}

// check returns an error for a chart that can't be drawn.
func (c Chart) check() error {
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
