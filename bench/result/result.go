// Package result keeps what a run has measured: report.json with every sample,
// and made from it report.md and plots. Since those are made from the file
// alone, they can be made anew, and they show nothing that was not measured.
package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tandem-rpc/tandem/bench/chart"
	"github.com/tandem-rpc/tandem/bench/harness"
)

// The files of a kept result, beside its plots.
const (
	JSONFile     = "report.json"
	MarkdownFile = "report.md"
)

// ErrOtherKind is Load's for a report.json that another command has kept.
var ErrOtherKind = errors.New("not a report of bench calls")

// Load reads a kept result; path is its folder, or the JSON file itself.
func Load(path string) (*harness.Report, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, JSONFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("result: %s: %w", path, err)
	}
	if head.Kind != harness.Kind {
		return nil, fmt.Errorf("result: %s: %w: its kind is %q", path, ErrOtherKind, head.Kind)
	}
	var report harness.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("result: %s: %w", path, err)
	}
	return &report, nil
}

// Encode is the text of a report.json.
func Encode(r *harness.Report) ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return append(text, '\n'), nil
}

// Keep writes the report into the folder, which it makes, and draws it.
func Keep(ctx context.Context, dir string, r *harness.Report) error {
	text, err := Encode(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, JSONFile), text, 0o644); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return Show(ctx, dir, r)
}

// Show writes report.md and the plots into the folder.
func Show(ctx context.Context, dir string, r *harness.Report) error {
	if err := os.WriteFile(filepath.Join(dir, MarkdownFile), []byte(Markdown(r)), 0o644); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return chart.Draw(ctx, dir, Charts(r))
}

// Earlier returns the report that the folder holds, to which rounds with these
// settings can be added; nil when there is none. An error says why they don't
// belong together.
func Earlier(ctx context.Context, dir string, s harness.Settings) (*harness.Report, error) {
	if _, err := os.Stat(filepath.Join(dir, JSONFile)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	earlier, err := Load(dir)
	if err != nil {
		return nil, err
	}
	revision, err := harness.Revision(ctx)
	if err != nil {
		return nil, err
	}
	machine := harness.ThisMachine()
	if earlier.Machine.Java != "" {
		machine.Java = earlier.Machine.Java // the run will tell
	}
	now := &harness.Report{Revision: revision, Machine: machine, Settings: s, Systems: earlier.Systems, Missing: earlier.Missing}
	if err := oneRun(earlier, now); err != nil {
		return nil, fmt.Errorf("result: %s can't be continued: %w; choose another folder", dir, err)
	}
	return earlier, nil
}

// Join adds the rounds of a run to an earlier report.
func Join(earlier, run *harness.Report) (*harness.Report, error) {
	if err := oneRun(earlier, run); err != nil {
		return nil, fmt.Errorf("result: the rounds can't be joined: %w", err)
	}
	all := *earlier
	all.Settings.Rounds += run.Settings.Rounds
	all.Samples = slices.Concat(earlier.Samples, run.Samples)
	return &all, nil
}

// oneRun finds what two reports must have in common to be one.
func oneRun(a, b *harness.Report) error {
	settings := func(r *harness.Report) harness.Settings {
		s := r.Settings
		s.Rounds, s.First, s.Peaks = 0, 0, nil
		return s
	}
	for _, part := range []struct {
		name string
		a, b any
	}{
		{"revision", a.Revision, b.Revision},
		{"machine", a.Machine, b.Machine},
		{"settings", settings(a), settings(b)},
		{"systems", a.Systems, b.Systems},
		{"missing systems", slices.Sorted(maps.Keys(a.Missing)), slices.Sorted(maps.Keys(b.Missing))},
	} {
		there, err := json.Marshal(part.a) // as they are kept: no list and an empty one are the same
		if err != nil {
			return err
		}
		here, err := json.Marshal(part.b)
		if err != nil {
			return err
		}
		if !bytes.Equal(there, here) {
			return fmt.Errorf("not the same %s: %s there, %s here", part.name, there, here)
		}
	}
	return nil
}
