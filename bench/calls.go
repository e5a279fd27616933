package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// calls measures every system in every cell.
func calls(ctx context.Context, args []string) error {
	return measure(ctx, args, "calls", tableFlags{
		modes: "shared,percaller", callers: "100,1000", deployments: "same", works: "0",
		rounds: 3, duration: 5 * time.Second, timeout: 3 * time.Minute,
	})
}

// table is the table of the seeds: their callers, calls and deployments.
func table(ctx context.Context, args []string) error {
	return measure(ctx, args, "table", tableFlags{
		modes: "shared,percaller", callers: "100,500,1000,2000,5000", deployments: "same,apart,two-servers", works: "0,10us",
		rounds: 1, duration: 10 * time.Second, calls: 1000000, timeout: 15 * time.Minute,
	})
}

// measure runs the harness as the command line says. What was measured before
// an interrupt is published all the same.
func measure(ctx context.Context, args []string, name string, defaults tableFlags) error {
	settings, file, err := defaults.parse("bench "+name, args)
	if err != nil {
		return err
	}
	if len(settings.Systems) == 0 {
		if settings.Systems, err = harness.Systems(ctx); err != nil {
			return err
		}
	}
	n, takes := settings.Estimate()
	fmt.Fprintf(os.Stderr, "%d measurements, about %v if each system makes 50,000 calls a second\n", n, takes.Round(time.Second))
	report, err := harness.Run(ctx, settings, os.Stderr)
	if report == nil {
		return err
	}
	if err := errors.Join(err, publish(report, file)); err != nil {
		return err
	}
	if n := report.Failed(); n > 0 {
		return fmt.Errorf("bench: %d of %d samples failed; the lines above say why", n, len(report.Samples))
	}
	return nil
}

// outcome is a report that can be written for people.
type outcome interface{ WriteTable(w io.Writer) error }

// publish prints the table, and writes the whole report to file unless that is
// empty.
func publish(report outcome, file string) error {
	if err := report.WriteTable(os.Stdout); err != nil || file == "" {
		return err
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
