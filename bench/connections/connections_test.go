package connections

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func short(systems ...string) Settings {
	return Settings{
		Systems: systems, Sizes: []int{60}, PerProcess: 40, Pace: 2000, Share: 0.1,
		Warmup: 10 * time.Millisecond, Duration: 50 * time.Millisecond, Timeout: time.Minute,
	}
}

func TestConnectionsAreHeld(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sockets are counted in /proc")
	}
	report, err := Run(t.Context(), short("tandem+tls", "netrpc"), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if report.Failed() > 0 || len(report.Steps) != 2 {
		t.Fatalf("%d of %d steps failed: %v", report.Failed(), len(report.Steps), report.Steps)
	}
	for _, s := range report.Steps {
		if s.Connections != 60 || s.Clients != 2 || s.Callers != 6 || s.Calls.Calls == 0 || s.Calls.Failures > 0 {
			t.Errorf("%s: %+v", s.System, s)
		}
		if s.IdleBytes() < 1000 || s.Idle.Goroutines < s.Empty.Goroutines+60 || s.Idle.Resident < s.Idle.Heap {
			t.Errorf("%s: %.0f bytes a connection cannot be: %+v", s.System, s.IdleBytes(), s.Idle)
		}
	}
	var text bytes.Buffer
	if err := report.WriteTable(&text); err != nil || strings.Count(text.String(), "tandem+tls") != 2 {
		t.Errorf("the table: %v\n%s", err, &text)
	}
}

func TestASystemThatHoldsNothingFailsItsStep(t *testing.T) {
	s := short("netrpc")
	s.Timeout = time.Millisecond
	report, err := Run(t.Context(), s, t.Output())
	if err != nil || report.Failed() != 1 {
		t.Errorf("%v: %+v", err, report)
	}
	var text bytes.Buffer
	if err := report.WriteTable(&text); err != nil || !strings.Contains(text.String(), "netrpc, 60 connections: FAILED") {
		t.Errorf("the table does not say so: %v\n%s", err, &text)
	}
}

func TestRunRefusesWhatCannotBeMeant(t *testing.T) {
	for want, change := range map[string]func(*Settings){
		"0 systems":  func(s *Settings) { s.Systems = nil },
		"with [0]":   func(s *Settings) { s.Sizes = []int{0} },
		"0 a second": func(s *Settings) { s.Pace = 0 },
		"share of 2": func(s *Settings) { s.Share = 2 },
	} {
		s := short("netrpc")
		change(&s)
		if _, err := Run(t.Context(), s, t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestMemoryIsPerConnection(t *testing.T) {
	s := Step{Connections: 10, Empty: load.Memory{Resident: 1000}, Idle: load.Memory{Resident: 41000}, Called: load.Memory{Resident: 61000}}
	if s.IdleBytes() != 4000 || s.CalledBytes() != 6000 {
		t.Errorf("%v idle and %v called, want 4000 and 6000", s.IdleBytes(), s.CalledBytes())
	}
}
