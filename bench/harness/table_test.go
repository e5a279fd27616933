package harness

import (
	"strings"
	"testing"
	"time"
)

func TestFiguresAreOfEachProcessesInterval(t *testing.T) {
	s := sample("a", Cell{Mode: Shared, Callers: 1}, 0, 1000)
	if s.TPS() != 1000 || s.ClientCPU() != time.Millisecond || s.ServerCPU() != time.Millisecond/2 {
		t.Errorf("%v calls/s, %v client, %v server; want 1000, 1ms, 500µs", s.TPS(), s.ClientCPU(), s.ServerCPU())
	}
	if s.ClientAllocs() != 3 || s.ServerAllocs() != 2 {
		t.Errorf("%v and %v allocations, want 3 and 2", s.ClientAllocs(), s.ServerAllocs())
	}
}

// The machine was twice as fast in the second round; the ratio is still 2.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	cell := Cell{Mode: Shared, Callers: 1}
	fast := []Sample{sample("fast", cell, 0, 200), sample("fast", cell, 1, 400), sample("fast", cell, 2, 7)}
	base := []Sample{sample("base", cell, 1, 200), sample("base", cell, 0, 100)}
	got := Ratios(fast, base, Sample.TPS)
	if len(got) != 2 || got[0] != 2 || got[1] != 2 {
		t.Errorf("got %v, want 2 twice", got)
	}
}

func TestTable(t *testing.T) {
	cell := Cell{Mode: Shared, Callers: 100}
	r := Report{
		Settings: Settings{
			Systems: []string{"fast", "base", "plain", "broken"}, Modes: []Mode{Shared}, Callers: []int{100},
			Baselines: []string{"base", "absent"},
		},
		Samples: []Sample{
			sample("fast", cell, 0, 200), sample("base", cell, 0, 100),
			sample("fast", cell, 1, 300), sample("base", cell, 1, 100),
			{System: "plain", Cell: cell, Unsupported: "alone"}, {System: "broken", Cell: cell, Error: "died"},
		},
	}
	r.Samples[3].Client.Failures, r.Samples[3].Client.FirstError = 7, "no room"
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	table := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"shared, 100 callers system calls/s",
		"fast 250 (200–300) 6250.00 (5000.00–7500.00)",
		"fast 2.50 (2.00–3.00) 0.42 (0.33–0.50)",
		"base 1.00 (1.00–1.00)",
		"plain – –",
		"broken – –",
		"round 1: broken shared, 100 callers: FAILED: died",
		"7 failed, the first with: no room",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(table, "absent") {
		t.Errorf("the table has a baseline that was not measured:\n%s", b.String())
	}
	if r.Failed() != 2 {
		t.Errorf("%d failed, want a sample without figures, and one some of whose calls failed", r.Failed())
	}
}
