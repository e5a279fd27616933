package loadtest

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func views() []*View {
	seconds := []Second{{At: -1, Rate: 10, P99: 4}, {0, 100, 0, 0, 1, 2, 3}, {1, 50, 2, 1, 1, 2, 8}}
	return []*View{
		{Elapsed: -900 * time.Millisecond, Duration: 3 * time.Second},
		{Elapsed: 1200 * time.Millisecond, Duration: 3 * time.Second, InFlight: 7, Counts: Counts{OK: 110}, Seconds: seconds[:2]},
		{Elapsed: 1450 * time.Millisecond, Duration: 3 * time.Second, InFlight: 7, Counts: Counts{OK: 120}, Seconds: seconds[:2]},
		{Elapsed: 2 * time.Second, Duration: 3 * time.Second, Stage: 1, Counts: Counts{OK: 150, Failed: 2, NotSent: 1}, Seconds: seconds},
		{Elapsed: 4 * time.Second, Duration: 3 * time.Second, Stage: 1, Seconds: seconds},
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	load := open(Stage{100, time.Second})
	s := Screen{Out: &out, Load: &load}
	for _, v := range views() {
		s.Show(v)
	}
	s.Clear()
	want := `warm      10/s  p50 0.000 ms  p90 0.000 ms  p99 4.00 ms   failed 0  not sent 0  in flight 7
  1s     100/s  p50 1.00 ms   p90 2.00 ms   p99 3.00 ms   failed 0  not sent 0  in flight 7
  2s      50/s  p50 1.00 ms   p90 2.00 ms   p99 8.00 ms   failed 2  not sent 1  in flight 0
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestLiveView(t *testing.T) {
	var out bytes.Buffer
	load := open(Stage{100, time.Second}, Stage{50, 2 * time.Second})
	s := Screen{Out: &out, Load: &load, Live: true, Color: true}
	for _, v := range views() {
		s.Show(v)
	}
	s.Clear()
	text := out.String()
	for _, want := range []string{
		"warm-up, 1 s left\n",
		"━━━━━━━━━━━━──────────────────  1s of 3s, stage 1 of 2: 100/s\nok 110   failed 0   not sent 0   in flight 7\nlast second     100/s  p50 1.00 ms   p90 2.00 ms   p99 3.00 ms \ncalls/s      ▁█\np99          █▆\n",
		"stage 2 of 2: 50/s\nok 150   \x1b[31mfailed 2\x1b[0m   \x1b[31mnot sent 1\x1b[0m",
		"waiting for the last responses",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%q", want, text)
		}
	}
	if n := strings.Count(text, "\x1b[5A\x1b[J"); n != len(views()) {
		t.Errorf("%d times redrawn", n)
	}
	if !strings.HasSuffix(text, "\x1b[5A\x1b[J") {
		t.Error("the last view stays")
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

// TestClosedLoopIsLabelled: whatever shows figures of a closed loop says what they are worth.
func TestClosedLoopIsLabelled(t *testing.T) {
	load := Load{Stages: []Stage{{Duration: time.Second}}, Callers: 3}
	s := Screen{Load: &load}
	res := measured(0)
	res.Load = settingOf(&load)
	var page bytes.Buffer
	if err := res.page(&page); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"screen": strings.Join(s.lines(views()[1]), "\n"), "table": strings.Join(about(res), "\n"), "page": page.String(), "JSON": res.Load.Note, "chart": percentileChart(res),
	} {
		if !strings.Contains(text, ClosedLoopNote) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestSparkline(t *testing.T) {
	if got := sparkline([]float64{0, 1, 2, 4, 8}); got != "▁▁▂▄█" {
		t.Error(got)
	}
	if got := sparkline([]float64{0, 0}); got != "▁▁" {
		t.Error(got)
	}
}
