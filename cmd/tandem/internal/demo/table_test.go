package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func sampleView() *view {
	ms := time.Millisecond
	return &view{
		elapsed: 12300 * time.Millisecond,
		servers: []row{
			{name: "s1", state: serving, pid: 4711, answered: 1234, figures: figures{250, 2 * ms / 10, 15 * ms / 10}},
			{name: "s2", state: killed, pid: 4712, answered: 800},
		},
		total:  row{name: "total", answered: 2034, figures: figures{250, 2 * ms / 10, 15 * ms / 10}},
		counts: totals{ok: 2034, failed: 1, wrong: 1, retried: 3, unknown: 4, moved: 5, overflow: 6},
	}
}

func TestTable(t *testing.T) {
	want := `
server        pid state       calls/s        p50        p99   answered
s1           4711 serving         250    0.20 ms    1.50 ms       1234
s2           4712 killed            0          -          -        800
total                             250    0.20 ms    1.50 ms       2034
 12.3s  ok 2034  failed 2  retried 3  unknown 4  moved 5  not made 6`
	if got := "\n" + strings.Join(table(sampleView()), "\n"); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

func TestTableFitsTheScreen(t *testing.T) {
	v := sampleView()
	big := 180_000_000 // an hour at the highest rate
	v.elapsed = time.Hour
	v.total.figures = figures{50_000, time.Minute, time.Minute}
	v.total.answered, v.servers[0].answered, v.servers[0].pid = big, big, 4_194_304
	v.counts = totals{ok: big, retried: 999, unknown: 99, moved: 999}
	for _, l := range table(v) {
		if len(l) >= 80 {
			t.Errorf("%d characters: %s", len(l), l)
		}
	}
}

func TestLine(t *testing.T) {
	want := " 12.3s   250/s p50 0.20 ms p99 1.50 ms  ok 2034 failed 2 retried 3 unknown 4 | s1 250/s s2 killed"
	if got := line(sampleView()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestScreenRedrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, live: true}
	s.show(sampleView())
	first := out.String()
	if strings.Contains(first, "\x1b") {
		t.Errorf("the first table moves the cursor: %q", first)
	}
	out.Reset()
	s.show(sampleView())
	if got := out.String(); got != "\x1b[5A\x1b[J"+first {
		t.Errorf("the second: %q", got)
	}
	out.Reset()
	s.event(time.Second, "s2 is gone")
	if got := out.String(); got != "\x1b[5A\x1b[J  1.0s  s2 is gone\n" {
		t.Errorf("an event: %q", got)
	}
	out.Reset()
	s.show(sampleView())
	if got := out.String(); got != first {
		t.Errorf("after an event: %q", got)
	}
}

func TestScreenPrintsPlainLines(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	s.show(sampleView())
	s.event(time.Second, "s2 is gone")
	s.show(sampleView())
	s.done()
	if got := out.String(); strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 3 {
		t.Errorf("got %q", got)
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	report(&out, sampleView(), []check{{"all is well", ""}}, nil)
	if got := out.String(); !strings.Contains(got, "ok    all is well") || !strings.Contains(got, "PASS") || strings.Contains(got, "FAIL") {
		t.Errorf("got %s", got)
	}
	out.Reset()
	report(&out, sampleView(), []check{{"all is well", ""}, {"no call was lost", "2 were"}}, []string{"call 1: lost"})
	got := out.String()
	if !strings.Contains(got, "FAIL  no call was lost: 2 were") || !strings.Contains(got, "call 1: lost") || strings.Contains(got, "PASS") {
		t.Errorf("got %s", got)
	}
}
