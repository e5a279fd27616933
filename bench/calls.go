package main

import (
	"context"
	"fmt"
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

// measure runs the harness as the command line says.
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
	return publish(report, err, file)
}
