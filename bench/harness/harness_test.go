package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/bench/load"
)

// asPeer names the variable that makes the test binary a peer, with its behavior.
const asPeer = "BENCH_TEST_AS_PEER"

func TestMain(m *testing.M) {
	switch os.Getenv(asPeer) {
	case "":
		goleak.VerifyTestMain(m)
	case "die":
		fmt.Fprintln(os.Stderr, "a reason to die")
		os.Exit(3)
	case "babble":
		fmt.Println("hello, I am a log line")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "hang":
		time.Sleep(time.Hour) // an empty select would be detected as a deadlock
	case "refuse":
		fmt.Println(`{"event":"failed","error":"no port left"}`)
	case "say nothing":
		fmt.Println(`{"event":"usage"}`)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// TestEndToEnd builds two peers and measures them in both modes.
func TestEndToEnd(t *testing.T) {
	s := Settings{
		Systems:   []string{"floor-mux", "floor-plain", "netrpc"},
		Modes:     []Mode{Shared, PerCaller},
		Callers:   []int{8},
		Conns:     2,
		Rounds:    2,
		Warmup:    10 * time.Millisecond,
		Duration:  100 * time.Millisecond,
		Timeout:   time.Minute,
		Baselines: []string{"netrpc"},
	}
	report, err := Run(t.Context(), s, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Failed(); n > 0 {
		t.Fatalf("%d samples failed: %v", n, report.Samples)
	}
	for _, cell := range s.cells() {
		for _, name := range s.Systems {
			samples := report.of(cell, name)
			if name == "floor-plain" && cell.Mode == Shared {
				if len(samples) != 0 {
					t.Error("floor-plain has figures for shared connections")
				}
				continue
			}
			if len(samples) != s.Rounds {
				t.Errorf("%s, %s: %d samples, want %d", name, cell, len(samples), s.Rounds)
			}
			for _, sample := range samples {
				checkFigures(t, sample)
			}
		}
	}
}

func checkFigures(t *testing.T, s Sample) {
	t.Helper()
	for figure, v := range map[string]float64{
		"TPS":            s.TPS(),
		"client's CPU":   micros(s.ClientCPU()),
		"server's CPU":   micros(s.ServerCPU()),
		"client allocs":  s.ClientAllocs(),
		"server allocs":  s.ServerAllocs(),
		"median latency": micros(s.Client.Latency.P50),
	} {
		if v <= 0 {
			t.Errorf("%s: %s is %v", s, figure, v)
		}
	}
	if s.Success() != 1 {
		t.Errorf("%s: success %v: %s", s, s.Success(), s.Client.FirstError)
	}
}

func TestAPeerThatMisbehavesFailsItsSample(t *testing.T) {
	for how, want := range map[string]string{
		"die":    "a reason to die",
		"babble": "I am a log line",
		"hang":   "deadline exceeded",
		"refuse": "no port left",
	} {
		t.Run(how, func(t *testing.T) {
			t.Setenv(asPeer, how)
			s := Settings{Timeout: 10 * time.Second}
			if how == "hang" {
				s.Timeout = 100 * time.Millisecond
			}
			here := built{filepath.Dir(os.Args[0])}
			sample := here.measure(t.Context(), filepath.Base(os.Args[0]), local(), s, Cell{Mode: Shared, Callers: 1})
			if sample.OK() || !strings.Contains(sample.Error, want) {
				t.Errorf("the sample's error is %q, want %q in it", sample.Error, want)
			}
		})
	}
}

func TestAReportWithoutFiguresIsAnError(t *testing.T) {
	t.Setenv(asPeer, "say nothing")
	silent, err := startPeer(t.Context(), nil, os.Args[0], "server")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.end()
	if _, err := silent.mark(); err == nil || !strings.Contains(err.Error(), "without figures") {
		t.Errorf("error %v, want that there are no figures", err)
	}
}

func TestRunRefusesWhatCannotBeMeant(t *testing.T) {
	valid := Settings{
		Systems: []string{"netrpc"}, Modes: []Mode{Shared}, Callers: []int{1}, Conns: 1, Rounds: 1, Timeout: time.Minute,
	}
	for want, change := range map[string]func(*Settings){
		"no system":  func(s *Settings) { s.Systems = []string{"telepathy"} },
		"0 systems":  func(s *Settings) { s.Systems = nil },
		"mode":       func(s *Settings) { s.Modes = []Mode{"alone"} },
		"-5 calls":   func(s *Settings) { s.Rates = []int{-5} },
		"-1 callers": func(s *Settings) { s.Callers = []int{-1} },
		"0 rounds":   func(s *Settings) { s.Rounds = 0 },
	} {
		s := valid
		change(&s)
		if _, err := Run(t.Context(), s, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := Settings{Systems: []string{"netrpc"}, Modes: []Mode{Shared}, Callers: []int{1}, Conns: 1, Rounds: 1, Timeout: time.Minute}
	if _, err := Run(ctx, s, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context was cancelled", err)
	}
}

// sample returns a sample with this many calls a second, in an interval of one second for the
// client and two for the server, with one CPU second in each.
func sample(system string, cell Cell, round int, calls int64) Sample {
	return Sample{
		System: system, Cell: cell, Round: round,
		Client: load.Result{Calls: calls, Usage: load.Usage{Wall: time.Second, CPU: time.Second, Mallocs: uint64(3 * calls)}},
		Server: load.Usage{Wall: 2 * time.Second, CPU: time.Second, Mallocs: uint64(4 * calls)},
	}
}
