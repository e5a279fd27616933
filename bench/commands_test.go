package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/result"
)

// TestKeepReportAndCompare measures two systems shortly, twice, makes the report again, and
// compares it with itself.
func TestKeepReportAndCompare(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "calls")
	args := strings.Fields("calls -systems netrpc,floor-mux -callers 4 -mode shared -rounds 2 -warmup 10ms -duration 50ms -rates 500 -out " + dir)
	for range 2 {
		if err := run(t.Context(), args); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := result.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept.Samples) != 4 || kept.Samples[0].Cell.Rate != 500 {
		t.Errorf("%d samples, want those of the second run: %v", len(kept.Samples), kept.Samples)
	}
	made := filepath.Join(dir, result.MarkdownFile)
	if err := os.Remove(made); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"report", dir}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(made); err != nil || string(text) != result.Markdown(kept) {
		t.Errorf("the report was not made again: %v", err)
	}
	if err := run(t.Context(), []string{"compare", dir, dir}); err != nil {
		t.Error(err)
	}
}

// Every scenario has settings that can be meant and systems that are there.
func TestScenarios(t *testing.T) {
	known, err := harness.Systems(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		f := usual()
		s.settings(&f)
		got, _, err := f.parse(s.name, nil)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		for _, system := range got.Systems {
			if name, _, _ := strings.Cut(system, "+"); !slices.Contains(known, name) {
				t.Errorf("%s: no system %s", s.name, system)
			}
		}
	}
	if lines := strings.Count(usage(), "\n"); lines > 30 {
		t.Errorf("bench -h has %d lines, more than a screen", lines)
	}
	kept, err := os.ReadDir("results")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kept {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == k.Name() }) {
			t.Errorf("the kept result %s is of no scenario", k.Name())
		}
	}
}

func TestWhatCommandsRefuse(t *testing.T) {
	for _, line := range []string{"telepathy", "draw", "report", "report -readme README.md a b", "compare a", "compare a b", "report " + t.TempDir()} {
		if err := run(t.Context(), strings.Fields(line)); err == nil {
			t.Errorf("bench %s: no error", line)
		}
	}
}
