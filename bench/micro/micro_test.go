package micro

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
)

func TestParseLine(t *testing.T) {
	name, got, ok := ParseLine("BenchmarkParser/small/16/frames-2   \t  14444\t   505.5 ns/op\t14404.29 MB/s\t   7 B/op\t  3 allocs/op")
	if want := (Sample{NS: 505.5, MBs: 14404.29, Bytes: 7, Allocs: 3}); !ok || name != "Parser/small/16/frames-2" || withoutProcessors(name) != "Parser/small/16/frames" || got != want {
		t.Errorf("%q, %+v, %v", name, got, ok)
	}
	if name, got, ok := ParseLine("BenchmarkOne 	 10	  2 ns/op	  5 extra"); !ok || name != "One" || got != (Sample{NS: 2, Extra: 5}) {
		t.Errorf("%q, %+v, %v", name, got, ok)
	}
	for _, line := range []string{"", "PASS", "goos: linux", "ok  \tsome/package\t3.8s", "BenchmarkX-2", "BenchmarkX-2 7 many ns/op"} {
		if _, _, ok := ParseLine(line); ok {
			t.Errorf("%q was taken for a result", line)
		}
	}
}

func TestFiguresOverRounds(t *testing.T) {
	r := Results{
		"a": {{NS: 4, Bytes: 8}, {NS: 20, Bytes: 4}, {NS: 6, Bytes: 6}},
		"b": {{NS: 2}, {NS: 10}, {NS: 2}},
	}
	if got := r.Median("a"); got.NS != 6 || got.Bytes != 6 {
		t.Errorf("median %+v", got)
	}
	// The second round was slow for both; the ratio does not show it.
	if got := r.Ratio("a", "b"); got != (figures.Spread{Median: 2, Min: 2, Max: 3}) {
		t.Errorf("ratio %v", got)
	}
	if got := r.Difference("a", "b"); got != (figures.Spread{Median: 4, Min: 2, Max: 10}) {
		t.Errorf("difference %v", got)
	}
	if r.Has("c") || r.Median("c") != (Sample{}) {
		t.Error("there are figures of what was not measured")
	}
}

func TestRunInThisProcess(t *testing.T) {
	var held []byte
	group := Group{{"Make", func(b *testing.B) error {
		b.SetBytes(1000)
		for b.Loop() {
			held = make([]byte, 1000)
		}
		b.ReportMetric(7, Extra)
		return nil
	}}}
	report, err := Run(t.Context(), Settings{2, time.Millisecond}, io.Discard, group)
	if err != nil {
		t.Fatal(err)
	}
	if len(held) != 1000 || len(report.Results["Make"]) != 2 {
		t.Errorf("results %v", report.Results)
	}
	for _, s := range report.Results["Make"] {
		if s.NS <= 0 || s.MBs <= 0 || s.Allocs != 1 || s.Bytes < 1000 || s.Extra != 7 {
			t.Errorf("sample %+v", s)
		}
	}
}

func TestEveryOtherRoundIsBackwards(t *testing.T) {
	var order []string
	note := func(name string) Bench {
		return Bench{name, func(*testing.B) error {
			if n := len(order); n == 0 || order[n-1] != name {
				order = append(order, name)
			}
			return nil
		}}
	}
	if err := runErr(t.Context(), Settings{2, time.Nanosecond}, Group{note("a"), note("b"), note("c")}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "abcba" {
		t.Errorf("order %s, want abc and then cba", got)
	}
}

func TestRunSaysWhatFailed(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	fine := func(*testing.B) error { return nil }
	for want, run := range map[string]func() error{
		"0 rounds": func() error { return runErr(t.Context(), Settings{0, time.Second}) },
		"X: broken": func() error {
			return runErr(t.Context(), Settings{1, time.Millisecond}, Group{{"X", func(*testing.B) error { return errors.New("broken") }}})
		},
		"before Y": func() error { return runErr(canceled, Settings{1, time.Millisecond}, Group{{"Y", fine}}) },
		"not found": func() error {
			return runErr(t.Context(), Settings{1, time.Millisecond}, &TestBinary{Package: "no/such"})
		},
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func runErr(ctx context.Context, s Settings, sources ...Source) error {
	_, err := Run(ctx, s, io.Discard, sources...)
	return err
}

// The benchmarks of another package's tests, which are quick to build here.
func TestRunATestBinary(t *testing.T) {
	const pkg = "github.com/tandem-rpc/tandem/wire"
	source := &TestBinary{Package: pkg, Pattern: "^BenchmarkHeader$", Prefix: "x/"}
	report, err := Run(t.Context(), Settings{2, time.Millisecond}, io.Discard, source)
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Results["x/Header/Parse"]; len(got) != 2 || got[0].NS <= 0 {
		t.Errorf("results %v", report.Results)
	}
	if _, err := os.Stat(source.binary()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the binary is still there: %v", err)
	}
	err = runErr(t.Context(), Settings{1, time.Millisecond}, &TestBinary{Package: pkg, Pattern: "^BenchmarkNoSuch$"})
	if err == nil || !strings.Contains(err.Error(), "NoSuch") {
		t.Errorf("error %v for a benchmark that is not there", err)
	}
}

func TestReport(t *testing.T) {
	r := &Report{Settings: Settings{3, time.Second}}
	var b strings.Builder
	if err := r.Write(&b, figures.Table{Title: "title", Heads: []string{"a", "ns"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 rounds of 1s", "\ntitle\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q lacks %q", b.String(), want)
		}
	}
}
