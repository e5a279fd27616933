package large

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are the parts whose systems are all in the bench's own module, and
// need no second to answer a call.
func quick(name string) bool { return name == "tls" || strings.HasPrefix(name, "compress") }

func TestPartsAreMeasured(t *testing.T) {
	names := slices.DeleteFunc(Names(), func(n string) bool { return !quick(n) })
	report, err := Run(t.Context(), names, Settings{Rounds: 1, Warmup: 10 * time.Millisecond, Duration: 50 * time.Millisecond, Timeout: time.Minute}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if report.Failed() > 0 || len(report.Parts) != len(names) {
		t.Fatalf("%d samples failed in %d parts", report.Failed(), len(report.Parts))
	}
	for _, p := range report.Parts {
		for _, s := range p.Report.Samples {
			if s.Client.Failures > 0 {
				t.Errorf("%s: %d calls failed, the first with: %s", s, s.Client.Failures, s.Client.FirstError)
			}
		}
	}
	var text bytes.Buffer
	if err := report.WriteTable(&text); err != nil || !strings.Contains(text.String(), "tandem+tls ÷ tandem") {
		t.Errorf("the table: %v\n%s", err, &text)
	}
}

// TestLargeCallsAreMadeBeside has calls that neither system takes by default.
func TestLargeCallsAreMadeBeside(t *testing.T) {
	s := Settings{Rounds: 1, Warmup: 10 * time.Millisecond, Duration: 300 * time.Millisecond, Timeout: time.Minute}
	report, err := harness.Run(t.Context(), s.shared(1, 4, "tandem+beside=5000000", "netrpc+beside=5000000"), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Samples {
		if s.Error != "" || s.Client.Failures > 0 || s.Client.LargeCalls == 0 {
			t.Errorf("%s: %d large calls, %d failures, the first with: %s", s, s.Client.LargeCalls, s.Client.Failures, s.Client.FirstError)
		}
	}
}

// TestStreams measures the streams that are in the bench's own module.
func TestStreams(t *testing.T) {
	s := Settings{Rounds: 1, Warmup: 10 * time.Millisecond, Duration: 50 * time.Millisecond, Timeout: time.Minute}
	report, err := harness.Run(t.Context(), s.perCaller(1, "tandem+stream=16384", "floor-plain+stream=16384"), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Samples {
		if s.Error != "" || s.Client.Failures > 0 {
			t.Errorf("%s: %d failures, the first with: %s", s, s.Client.Failures, s.Client.FirstError)
		}
	}
	if v := judgeStream(report); len(v) != 3 {
		t.Errorf("verdicts %v, want two figures and a ratio", v)
	}
}

// interrupter interrupts a run at the progress line of a sample, which follows
// that of its part.
type interrupter struct {
	interrupt func()
	lines     int
}

func (i *interrupter) Write(b []byte) (int, error) {
	if i.lines++; i.lines == 2 {
		i.interrupt()
	}
	return len(b), nil
}

func TestAnInterruptedRunHasWhatWasMeasured(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	s := Settings{Rounds: 1, Duration: 10 * time.Millisecond, Timeout: time.Minute}
	report, err := Run(ctx, []string{"tls", "compress"}, s, &interrupter{interrupt: interrupt})
	if !errors.Is(err, context.Canceled) || report == nil {
		t.Fatalf("error %v, report %v, want that it was interrupted and has a report", err, report)
	}
	if len(report.Parts) != 1 || len(report.Parts[0].Report.Samples) != 1 {
		t.Errorf("parts %+v, want one with a sample", report.Parts)
	}
}

func TestRunRefusesAPartThatIsNot(t *testing.T) {
	if _, err := Run(t.Context(), []string{"tls", "lunch"}, Settings{}, t.Output()); err == nil || !strings.Contains(err.Error(), "stream") {
		t.Errorf("error %v, want the parts in it", err)
	}
}

// sample has a rate of calls a second and a 99th percentile.
func sample(system string, round int, calls int64, p99 time.Duration) harness.Sample {
	return harness.Sample{System: system, Round: round, Client: load.Result{
		Calls: calls, Latency: load.Latency{P50: p99 / 2, P99: p99}, Usage: load.Usage{Wall: time.Second, CPU: time.Second},
	}, Server: load.Usage{Wall: time.Second, CPU: time.Second}}
}

func TestVerdictsAreMediansOfRatiosWithinARound(t *testing.T) {
	const beside = "tandem+beside=67108864"
	r := &harness.Report{Samples: []harness.Sample{
		sample("tandem", 0, 100, 10), sample(beside, 0, 100, 20), // 2
		sample("tandem", 1, 100, 100), sample(beside, 1, 100, 400), // 4
		sample("tandem", 2, 100, 10), sample(beside, 2, 100, 50), // 5
		sample("tandem", 3, 100, 10), {System: beside, Round: 3, Error: "lost"},
	}}
	all := judgeBeside(r)
	i := slices.IndexFunc(all, func(v Verdict) bool { return strings.Contains(v.What, "p99") })
	if i < 0 || all[i].Value != 4 || all[i].Met() || !strings.Contains(all[i].String(), "MISSED") {
		t.Errorf("verdicts %v, want that 4 misses the target", all)
	}
	if slices.ContainsFunc(all, func(v Verdict) bool { return strings.HasPrefix(v.What, "netrpc") }) {
		t.Errorf("verdicts %v of a system without samples", all)
	}
}

func TestTargetsHaveADirection(t *testing.T) {
	for _, c := range []struct {
		Verdict
		met bool
	}{
		{Verdict{Value: 5}, true},
		{Verdict{Value: 0.9, Target: 0.8, Least: true}, true},
		{Verdict{Value: 0.7, Target: 0.8, Least: true}, false},
		{Verdict{Value: 0.1, Target: 0.1}, true},
		{Verdict{Value: 0.2, Target: 0.1}, false},
	} {
		if c.Met() != c.met {
			t.Errorf("%s: met is %t", c.Verdict, c.Met())
		}
	}
}
