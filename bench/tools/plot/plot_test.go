package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/bench/chart"
)

var (
	lines = chart.Chart{
		Name: "lines", Title: "Calls & more", X: "callers", Y: "calls/s", LogX: true,
		Series: []chart.Series{
			{Name: "fast", Strong: true, Points: []chart.Point{{X: 100, Y: 200_000, Low: 190_000, High: 210_000}, {X: 1000, Y: 100_000, Low: 90_000, High: 110_000}}},
			{Name: "floor", Style: 30, Dashed: true, Points: []chart.Point{{X: 100, Y: 300_000, Low: 300_000, High: 300_000}}},
		},
	}
	bars = chart.Chart{
		Name: "bars", Title: "CPU", Y: "µs", Bars: true, Ticks: []chart.Tick{{At: 0, Label: "one"}, {At: 1, Label: "two"}},
		Series: []chart.Series{{Name: "100 callers", Points: []chart.Point{{X: 0, Y: 5}, {X: 1, Y: 9}}}},
	}
)

func drawn(t *testing.T, charts ...chart.Chart) (dir string) {
	t.Helper()
	text, err := json.Marshal(charts)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := run([]string{dir}, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBothFormatsAreDrawn(t *testing.T) {
	dir := drawn(t, lines, bars)
	for name, want := range map[string][]string{
		"lines": {"Calls &amp; more", ">calls/s<", ">callers<", ">fast<", ">floor<", ">200,000<", ">100<", ">1,000<", "#D62728"},
		"bars":  {">CPU<", ">one<", ">two<", ">100 callers<", "µs"},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(svg), text) {
				t.Errorf("%s.svg lacks %q", name, text)
			}
		}
		file, err := os.Open(filepath.Join(dir, name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if picture, err := png.DecodeConfig(file); err != nil || picture.Width < 500 {
			t.Errorf("%s.png: %d pixels wide, %v", name, picture.Width, err)
		}
	}
}

// The same chart gives the same bytes, or kept plots could not be checked.
func TestDrawingIsRepeatable(t *testing.T) {
	one, two := drawn(t, lines), drawn(t, lines)
	for _, name := range []string{"lines.svg", "lines.png"} {
		a, err := os.ReadFile(filepath.Join(one, name))
		b, err2 := os.ReadFile(filepath.Join(two, name))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v, %v", name, err, err2)
		}
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	for want, series := range map[string][]chart.Series{
		"no series":                  nil,
		`series "empty" has no`:      {{Name: "empty"}},
		`series "zero": the point {`: {{Name: "zero", Points: []chart.Point{{X: 0, Y: 1}}}},
	} {
		bad := lines
		bad.Series = series
		if err := render(bad, "svg", io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if err := run([]string{t.TempDir()}, strings.NewReader("{}")); err == nil {
		t.Error("what is no list was drawn")
	}
	if err := run(nil, strings.NewReader("[]")); err == nil {
		t.Error("it needs no folder")
	}
}

func TestALongTitleHasSeveralLines(t *testing.T) {
	fits := func(line string) bool { return len(line) <= 10 }
	for text, want := range map[string]string{
		"one, two": "one, two", "one, two, three, four": "one, two,\nthree,\nfour", "without any comma": "without any comma", "": "",
	} {
		if got := fold(text, fits); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	long := lines
	long.Title = strings.Repeat("very, ", 30) + "long"
	svg, err := os.ReadFile(filepath.Join(drawn(t, long), "lines.svg"))
	if err != nil || strings.Contains(string(svg), long.Title) {
		t.Errorf("the title is in one line: %v", err)
	}
}

func TestGrouped(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", 0.5: "0.5"} {
		if got := grouped(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
