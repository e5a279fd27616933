package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/java"
	"github.com/tandem-rpc/tandem/bench/progress"
	"github.com/tandem-rpc/tandem/bench/result"
)

// calls measures every system in every cell.
func calls(ctx context.Context, args []string) error {
	return measure(ctx, args, "calls", tableFlags{
		modes: "shared,percaller", callers: "100,1000", deployments: "same", works: "0",
		rounds: 3, duration: 5 * time.Second, timeout: 3 * time.Minute,
	})
}

// table is the table of the seeds: their callers, calls and deployments. A cell's
// million calls and ten seconds are those of its five rounds together.
func table(ctx context.Context, args []string) error {
	return measure(ctx, args, "table", tableFlags{
		modes: "shared,percaller", callers: "100,500,1000,2000,5000", deployments: "same,apart,two-servers", works: "0,10us",
		rounds: 5, duration: 2 * time.Second, calls: 200_000, timeout: 15 * time.Minute,
	})
}

// inJava measures the systems in Java beside some in Go.
func inJava(ctx context.Context, args []string) error {
	return measure(ctx, args, "java", tableFlags{
		systems: strings.Join(append(java.Systems(), "tandem", "netrpc", "floor-mux", "floor-plain"), ","),
		modes:   "shared,percaller", callers: "100,1000", deployments: "same", works: "0",
		rounds: 3, duration: 5 * time.Second, timeout: 5 * time.Minute,
	})
}

// measure runs the harness as the command line says.
func measure(ctx context.Context, args []string, name string, defaults tableFlags) error {
	settings, to, err := defaults.parse("bench "+name, args)
	if err != nil {
		return err
	}
	if len(settings.Systems) == 0 {
		if settings.Systems, err = harness.Systems(ctx); err != nil {
			return err
		}
	}
	var earlier *harness.Report
	if to.folder != "" {
		if earlier, err = result.Earlier(ctx, to.folder, settings); err != nil {
			return err
		}
	}
	report, err := runAfter(ctx, earlier, settings)
	if report == nil {
		return err
	}
	if err == nil && to.folder != "" {
		err = result.Keep(ctx, to.folder, report)
	}
	return publish(report, err, to.file)
}

// runAfter measures, and adds what it measured to an earlier report unless that
// is nil, or the run was interrupted: a part of a round can't be added.
func runAfter(ctx context.Context, earlier *harness.Report, s harness.Settings) (*harness.Report, error) {
	if earlier != nil {
		s.First, s.Peaks = earlier.Settings.Rounds, earlier.Settings.Peaks
	}
	n, takes := s.Estimate()
	fmt.Fprintf(os.Stderr, "%d measurements, about %v if each system makes 50,000 calls a second\n", n, takes.Round(time.Second))
	line := progress.New(os.Stderr)
	report, err := harness.Run(ctx, s, line)
	line.End()
	if err != nil || earlier == nil {
		return report, err
	}
	joined, err := result.Join(earlier, report)
	if err != nil { // what was measured is shown, and not kept
		return report, err
	}
	return joined, nil
}
