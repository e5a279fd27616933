package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// Encode returns the text of a report.json, with a line for each sample.
func Encode(r *harness.Report) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return append(bytes.ReplaceAll(text, []byte(`,{"system":`), []byte(",\n{\"system\":")), '\n'), nil
}

// Load reads a kept result; path is its folder, or the JSON file itself.
func Load(path string) (*harness.Report, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, JSONFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	var report harness.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("result: %s: %w", path, err)
	}
	if report.Kind != harness.Kind {
		return nil, fmt.Errorf("result: %s: no report of calls: its kind is %q", path, report.Kind)
	}
	return &report, nil
}
