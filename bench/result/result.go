// Package result keeps the results of a run: report.json with every sample, and report.md
// and plots made from it. Since those are made from the file only, they can be made again,
// and they show nothing that was not measured.
package result

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem/bench/chart"
	"github.com/tandem-rpc/tandem/bench/harness"
)

// The files of a kept result, besides its plots.
const (
	JSONFile     = "report.json"
	MarkdownFile = "report.md"
)

// Keep writes the report and its plots into the folder, which it creates, and replaces a
// result that is there.
func Keep(dir string, r *harness.Report) error {
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
	return Show(dir, r)
}

// Show writes report.md and the plots into the folder, and removes plots that the
// report does not have.
func Show(dir string, r *harness.Report) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, MarkdownFile), []byte(Markdown(r)), 0o644); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return chart.Draw(dir, Charts(r))
}
