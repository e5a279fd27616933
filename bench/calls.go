package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/result"
)

// measure runs a scenario with the flags of the command line, and prints and keeps the
// results. An interrupted run prints what it has measured so far.
func measure(ctx context.Context, s scenario, args []string) error {
	defaults := usual()
	s.settings(&defaults)
	settings, to, err := defaults.parse(s.name, args)
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
	if err == nil && to.folder != "" {
		err = result.Keep(to.folder, report)
	}
	if err := errors.Join(err, report.WriteTable(os.Stdout), writeFile(to.file, report)); err != nil {
		return err
	}
	if n := report.Failed(); n > 0 {
		return fmt.Errorf("bench: measurements that failed: %d; the lines above say why", n)
	}
	return nil
}

// writeFile writes a report as JSON to file, unless that is empty.
func writeFile(file string, report *harness.Report) error {
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

// serve runs the server of one system until it is interrupted.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench server", flag.ExitOnError)
	system := flags.String("system", "tandem", "system whose server is to run")
	listen := flags.String("listen", "127.0.0.1:7001", "address to listen on")
	work := flags.Duration("work", 0, "time for which a handler keeps its processor busy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	used, err := harness.Serve(ctx, *system, *listen, *work, func(addr string) {
		fmt.Fprintf(os.Stdout, "%s serves on %s until it is interrupted\n", *system, addr)
	})
	if err != nil {
		return err
	}
	const mib = 1 << 20
	fmt.Fprintf(os.Stdout, "%s used %v of processor time in %v, %d MB of memory at most, %d objects, %d reads and %d writes\n",
		*system, used.CPU, used.Wall.Round(time.Millisecond), used.Peak/mib, used.Mallocs, used.Reads, used.Writes)
	return nil
}
