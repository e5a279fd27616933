package loadtest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// open returns an open loop with the stages.
func open(stages ...Stage) Load { return Load{Stages: stages, MaxInFlight: 1000} }

func TestTimetable(t *testing.T) {
	load := open(Stage{2, time.Second}, Stage{0.5, 3 * time.Second}, Stage{10, 200 * time.Millisecond})
	load.Warmup = 500 * time.Millisecond
	type due struct {
		stage int
		at    time.Duration
	}
	var got []due
	for stage, at := range load.timetable() {
		got = append(got, due{stage, at.Round(time.Microsecond)})
	}
	ms := time.Millisecond
	want := []due{{warmingUp, 0}, {0, 500 * ms}, {0, 1000 * ms}, {1, 1500 * ms}, {1, 3500 * ms}, {2, 4500 * ms}, {2, 4600 * ms}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for range load.timetable() {
		break // a caller may stop
	}
}

// TestTimetableHasEveryCall: as many calls as rate and duration say, although intervals are not
// whole nanoseconds.
func TestTimetableHasEveryCall(t *testing.T) {
	for _, s := range []Stage{{3, time.Second}, {7, 10 * time.Second}, {100, time.Minute}, {30_000, 10 * time.Second}, {123_457, time.Second}} {
		n := 0
		load := open(s)
		for range load.timetable() {
			n++
		}
		if want := int(s.Rate * s.Duration.Seconds()); n != want {
			t.Errorf("%v: %d calls, want %d", s, n, want)
		}
	}
}

func TestCheck(t *testing.T) {
	second := Stage{100, time.Second}
	for _, c := range []struct {
		load Load
		want string // in the error; "" for none
	}{
		{open(second), ""},
		{Load{Stages: []Stage{{Duration: time.Second}}, Callers: 1, MaxInFlight: 1}, ""},
		{open(), "--stages: 0 stages"},
		{open(slices.Repeat([]Stage{second}, 101)...), "101 stages"},
		{open(Stage{0, time.Second}), "--rate 0"},
		{open(Stage{-1, time.Second}), "--rate -1"},
		{open(Stage{2e6, time.Second}), "--rate 2e+06"},
		{open(Stage{1, 0}), "a load without an end"},
		{open(Stage{1, 20 * time.Hour}, Stage{1, 20 * time.Hour}), "longer than 24h"},
		{open(Stage{1, 1 << 62}, Stage{1, 1 << 62}), "longer than 24h"},
		{Load{Stages: []Stage{second}}, "--max-in-flight 0"},
		{Load{Stages: []Stage{second}, MaxInFlight: 1, Callers: -1}, "--callers -1"},
		{Load{Stages: []Stage{second}, MaxInFlight: 1, Warmup: -1}, "--warmup -1ns"},
	} {
		err := c.load.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.load, err, c.want)
		}
	}
}

func TestParseStages(t *testing.T) {
	stages, err := ParseStages("100:10s, 2.5:1m")
	if err != nil || !slices.Equal(stages, []Stage{{100, 10 * time.Second}, {2.5, time.Minute}}) {
		t.Errorf("got %v, %v", stages, err)
	}
	for _, text := range []string{"", "100", "100:10", "x:10s", "100:10s,"} {
		if stages, err := ParseStages(text); err == nil {
			t.Errorf("%q: got %v", text, stages)
		}
	}
}

func TestLoadText(t *testing.T) {
	load := open(Stage{100, time.Second}, Stage{2.5, time.Minute})
	if got := load.String(); got != "open loop, 100 calls/s for 1s, then 2.5 calls/s for 1m0s" {
		t.Error(got)
	}
	load = Load{Stages: []Stage{{Duration: time.Second}}, Callers: 1, Warmup: time.Second}
	if got := load.String(); got != ClosedLoopNote+", 1 caller for 1s, after 1s of warm-up" {
		t.Error(got)
	}
}
