package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	lines = Chart{
		Name: "lines", Title: "Calls & more", X: "callers", Y: "calls/s", LogX: true,
		Series: []Series{
			{Name: "fast", Strong: true, Points: []Point{{X: 100, Y: 200_000, Low: 190_000, High: 210_000}, {X: 1000, Y: 100_000, Low: 90_000, High: 110_000}}},
			{Name: "floor", Style: 30, Dashed: true, Points: []Point{{X: 100, Y: 300_000, Low: 300_000, High: 300_000}}},
		},
	}
	bars = Chart{
		Name: "bars", Title: "CPU", Y: "µs", Bars: true, Ticks: []Tick{{At: 0, Label: "one"}, {At: 1, Label: "two"}},
		Series: []Series{{Name: "100 callers", Points: []Point{{X: 0, Y: 5}, {X: 1, Y: 9}}}, {Name: "200 callers", Points: []Point{{X: 0, Y: 0}, {X: 1, Y: 10}}}},
	}
)

func TestChartsAreDrawn(t *testing.T) {
	dir := t.TempDir()
	if err := Draw(dir, []Chart{lines, bars}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"lines": {"Calls &amp; more", ">calls/s<", ">callers<", ">fast<", ">floor<", ">200,000<", ">100<", ">1,000<", "#d62728", "dasharray"},
		"bars":  {">CPU<", ">one<", ">two<", ">100 callers<", "µs", `y="350" width="110" height="0"`},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(svg), text) {
				t.Errorf("%s.svg lacks %q:\n%s", name, text, svg)
			}
		}
		for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s.svg: %v", name, err)
			}
		}
	}
}

// Larger values are further up, and further to the right.
func TestAxes(t *testing.T) {
	for _, a := range []axis{{low: 1, high: 1000, from: 0, to: 300, log: true}, {low: 0, high: 30, from: 0, to: 300}} {
		if low, high := a.at(a.low), a.at(a.high); low != 0 || high != 300 {
			t.Errorf("%+v: the ends are at %v and %v", a, low, high)
		}
	}
	if got := (axis{low: 1, high: 1000, from: 0, to: 300, log: true}).at(10); got < 99.9 || got > 100.1 {
		t.Errorf("10 is at %v of 300 pixels from 1 to 1000", got)
	}
	for _, c := range []struct {
		axis
		want string
	}{
		{axis{low: 0, high: 31}, "0 5 10 15 20 25 30"},
		{axis{low: -2500, high: 0}, "-2,500 -2,000 -1,500 -1,000 -500 0"},
		{axis{low: 0, high: 0.4}, "0 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4"},
		{axis{low: 0, high: 240_000}, "0 50,000 100,000 150,000 200,000"},
		{axis{low: 30, high: 400, log: true}, "50 100 200"},
		{axis{low: 3, high: 40_000, log: true}, "10 100 1,000 10,000"},
	} {
		var labels []string
		for _, tick := range c.ticks() {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%+v: marks %q, want %q", c.axis, got, c.want)
		}
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	for want, series := range map[string][]Series{
		"no series":                  nil,
		`series "empty" has no`:      {{Name: "empty"}},
		`series "zero": the point {`: {{Name: "zero", Points: []Point{{X: 0, Y: 1}}}},
	} {
		bad := lines
		bad.Series = series
		if err := Draw(t.TempDir(), []Chart{bad}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if _, err := Read(strings.NewReader("{}")); err == nil {
		t.Error("what is no list was read")
	}
}

func TestALongTitleHasSeveralLines(t *testing.T) {
	for text, want := range map[string][]string{
		"one, two": {"one, two"}, "one, two, three, four": {"one, two,", "three,", "four"}, "without any comma": {"without any comma"},
	} {
		if got := fold(text, 10); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
