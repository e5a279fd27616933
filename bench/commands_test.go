package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/bench/result"
)

// TestARunIsKeptAndContinued measures two systems shortly, adds a round, and
// makes the report anew.
func TestARunIsKeptAndContinued(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "2026-01-31-calls")
	args := []string{"calls", "-systems", "netrpc,floor-mux", "-callers", "4", "-mode", "shared", "-rounds", "1", "-warmup", "10ms", "-duration", "50ms", "-out", dir}
	for range 2 {
		if err := run(t.Context(), args); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := result.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if kept.Settings.Rounds != 2 || len(kept.Samples) != 4 || kept.Samples[0].System != "netrpc" || kept.Samples[2].System != "floor-mux" || kept.Samples[2].Round != 1 {
		t.Errorf("%d rounds, want 2 of 2 samples, the second beginning with the other system: %v", kept.Settings.Rounds, kept.Samples)
	}
	if err := run(t.Context(), append(args, "-duration", "60ms")); err == nil || !strings.Contains(err.Error(), "not the same settings") {
		t.Errorf("error %v, want that the settings differ", err)
	}
	made := filepath.Join(dir, result.MarkdownFile)
	if err := os.Remove(made); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"report", filepath.Join(dir, result.JSONFile)}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(made); err != nil || string(text) != result.Markdown(kept) {
		t.Errorf("the report was not made anew: %v", err)
	}
	if err := run(t.Context(), []string{"compare", dir, dir}); err != nil {
		t.Error(err)
	}
}

// A report of tables is kept as it was printed, once.
func TestTablesAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "2026-01-31-balancers")
	args := strings.Fields("balancers -nodes 10 -goroutines 1 -count 1 -benchtime 1ms -out " + dir)
	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, result.MarkdownFile))
	if err != nil || !strings.Contains(string(text), "`go run ./bench balancers -nodes 10") || !strings.Contains(string(text), "roundrobin") {
		t.Errorf("%v: the report lacks its command or its table:\n%s", err, text)
	}
	if _, err := result.Load(dir); !errors.Is(err, result.ErrOtherKind) {
		t.Errorf("error %v, want ErrOtherKind", err)
	}
	if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "choose another folder") {
		t.Errorf("error %v, want that the folder is taken", err)
	}
}

// Rounds of an open loop are added at the rates of the first.
func TestPeaksAreMeasuredOnce(t *testing.T) {
	dir := t.TempDir()
	args := strings.Fields("calls -systems netrpc -callers 4 -mode shared -rounds 1 -warmup 10ms -duration 50ms -rates 50% -out " + dir)
	for range 2 {
		if err := run(t.Context(), args); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := result.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept.Peaks) != 1 || len(kept.Samples) != 2 || kept.Samples[0].Cell != kept.Samples[1].Cell || kept.Samples[0].Cell.Rate < 1 {
		t.Errorf("%d peaks, want 1; samples %v", len(kept.Peaks), kept.Samples)
	}
}

func TestTwoOutputsOfGoTestAreCompared(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"old.txt", "new.txt"} {
		file := filepath.Join(dir, name)
		text := "pkg: example.com/a\n" + strings.Repeat("BenchmarkOne-2 \t 100\t 20.0 ns/op\n", 6)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if err := run(t.Context(), append([]string{"compare"}, files...)); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"compare", files[0], dir}); err == nil {
		t.Error("an output of go test was compared with a folder")
	}
}

func TestWhatCommandsRefuse(t *testing.T) {
	for _, line := range []string{"telepathy", "report", "report -readme README.md a b", "compare a", "compare a b", "report " + t.TempDir()} {
		if err := run(t.Context(), strings.Fields(line)); err == nil {
			t.Errorf("bench %s: no error", line)
		}
	}
}
