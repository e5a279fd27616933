package result

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/chart"
	"github.com/tandem-rpc/tandem/bench/harness"
)

// chartNamed finds a chart by the name of its files.
func chartNamed(t *testing.T, r *harness.Report, name string) chart.Chart {
	t.Helper()
	for _, c := range Charts(r) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no chart %q", name)
	return chart.Chart{}
}

func TestThroughputIsPlottedWithItsSpread(t *testing.T) {
	c := chartNamed(t, sampleReport(1000), "throughput-shared")
	for _, s := range c.Series {
		if s.Name != "tandem" {
			continue
		}
		want := []chart.Point{{X: 100, Y: 1500, Low: 1000, High: 2000}, {X: 1000, Y: 1500, Low: 1000, High: 2000}}
		if len(s.Points) != 2 || s.Points[0] != want[0] || s.Points[1] != want[1] || !s.Strong {
			t.Errorf("got %+v, want %+v and strong", s, want)
		}
	}
	if first := c.Series[0]; !first.Dashed || !strings.HasPrefix(first.Name, "floor-") {
		t.Errorf("the first line is %q, want a dashed floor", first.Name)
	}
}

func TestASystemWithoutFiguresIsNotPlotted(t *testing.T) {
	r := sampleReport(1000)
	for i, s := range r.Samples {
		if s.System == "floor-plain" && s.Cell.Mode == harness.Shared {
			r.Samples[i] = harness.Sample{System: s.System, Cell: s.Cell, Unsupported: "alone"}
		}
	}
	for _, name := range []string{"throughput-shared", "p99-shared"} {
		if n := len(chartNamed(t, r, name).Series); n != 3 {
			t.Errorf("%s has %d lines, want 3", name, n)
		}
	}
	if c := chartNamed(t, r, "cpu-shared"); len(c.Ticks) != 3 || len(c.Series[0].Points) != 3 {
		t.Errorf("%d groups of bars, want 3: %+v", len(c.Ticks), c)
	}
}

func TestAnOpenLoopHasPlotsOfItsOwn(t *testing.T) {
	r := sampleReport(1000)
	r.Settings.Rates = []int{500, 900}
	for i := range r.Samples {
		r.Samples[i].Cell.Rate = 900
	}
	c := chartNamed(t, r, "p99-shared-rate900")
	if !strings.Contains(c.Title, "900 calls/s begin") {
		t.Errorf("the title is %q", c.Title)
	}
	for _, c := range Charts(r) {
		if strings.Contains(c.Name, "rate500") {
			t.Errorf("a plot %q of nothing", c.Name)
		}
	}
}

func TestEveryCircumstanceHasPlotsOfItsOwn(t *testing.T) {
	r := sampleReport(1000)
	s := &r.Settings
	s.Deployments, s.Works, s.Rates = []harness.Deployment{harness.Same, harness.Apart}, []time.Duration{0, 10 * time.Microsecond}, []int{30, 90}
	r.Samples = nil
	for _, cell := range r.Cells() {
		r.Samples = append(r.Samples, sample("tandem", cell, 0, 1000))
	}
	names := map[string]bool{}
	for _, c := range Charts(r) {
		if names[c.Name] {
			t.Errorf("two plots are called %s", c.Name)
		}
		names[c.Name] = true
	}
	if want := 2 * 2 * 2 * 2 * 2; len(names) != want { // modes, deployments, handlers, rates; CPU and p99
		t.Errorf("%d plots, want %d: %v", len(names), want, names)
	}
	c := chartNamed(t, r, "cpu-shared-apart-work10us-rate90")
	if len(c.Series) != 2 || !strings.Contains(c.Title, "2 shared connections, apart, a handler of 10µs, 90 calls/s begin") {
		t.Errorf("%d numbers of callers under %q, want 2", len(c.Series), c.Title)
	}
}

// The usage of servers that run elsewhere is not known to the client.
func TestServersElsewhereHaveNoPlotOfTheirCPU(t *testing.T) {
	r := sampleReport(1000)
	r.Settings.Deployments = []harness.Deployment{harness.Elsewhere}
	for i := range r.Samples {
		r.Samples[i].Cell.Deployment = harness.Elsewhere
	}
	chartNamed(t, r, "throughput-shared-elsewhere")
	for _, c := range Charts(r) {
		if strings.HasPrefix(c.Name, "cpu") {
			t.Errorf("a plot %s", c.Name)
		}
	}
	if text := compareText(t, r, r); strings.Contains(text, "CPU") {
		t.Errorf("CPU is compared:\n%s", text)
	}
}
