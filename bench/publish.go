package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// outcome is the report of a run.
type outcome interface {
	// WriteTable writes the report for people.
	WriteTable(w io.Writer) error
	// Failed returns how many measurements have no figures.
	Failed() int
}

// publish prints a report, and writes it to file unless that is empty. It
// returns what ended the run early, if anything did: what was measured before
// is worth having all the same. Measurements that failed are an error too.
func publish(report outcome, ended error, file string) error {
	if err := errors.Join(ended, report.WriteTable(os.Stdout), writeFile(file, report)); err != nil {
		return err
	}
	if n := report.Failed(); n > 0 {
		return fmt.Errorf("bench: measurements that failed: %d; the lines above say why", n)
	}
	return nil
}

// writeFile writes a report as JSON to file, unless that is empty.
func writeFile(file string, report any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "\t")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}
