package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// calls is the table of the seeds: every system in every cell.
func calls(ctx context.Context, args []string) error {
	settings, file, err := parse(args)
	if err != nil {
		return err
	}
	if len(settings.Systems) == 0 {
		if settings.Systems, err = harness.Systems(ctx); err != nil {
			return err
		}
	}
	report, err := harness.Run(ctx, settings, os.Stderr)
	if err != nil {
		return err
	}
	if err := publish(report, file); err != nil {
		return err
	}
	if n := report.Failed(); n > 0 {
		return fmt.Errorf("bench: %d of %d samples failed; the lines above say why", n, len(report.Samples))
	}
	return nil
}

// table is a report that can be written for people.
type table interface{ WriteTable(w io.Writer) error }

// publish prints the table, and writes the whole report to file unless that is
// empty.
func publish(report table, file string) error {
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

// parse reads the command line. No systems means all.
func parse(args []string) (s harness.Settings, file string, err error) {
	flags := flag.NewFlagSet("bench calls", flag.ExitOnError)
	systems := flags.String("systems", "", "systems to measure, separated by commas (default: all)")
	modes := flags.String("mode", "shared,percaller", "modes: shared, percaller")
	callers := flags.String("callers", "100,1000", "numbers of concurrent callers")
	rates := flags.String("rates", "", "calls that begin a second, in an open loop (default: a closed loop, as fast as it goes)")
	baselines := flags.String("baselines", "netrpc,floor-mux,floor-plain", "systems that the others are divided by")
	flags.IntVar(&s.Conns, "conns", 2, "connections in the shared mode")
	flags.IntVar(&s.Rounds, "rounds", 3, "rounds; each measures every system in every cell")
	flags.DurationVar(&s.Warmup, "warmup", time.Second, "time before each measurement")
	flags.DurationVar(&s.Duration, "duration", 5*time.Second, "measure at least so long,")
	flags.Int64Var(&s.Calls, "calls", 0, "and at least so many calls")
	flags.DurationVar(&s.Timeout, "timeout", 3*time.Minute, "time after which a measurement has failed")
	flags.StringVar(&file, "json", "", "file for the whole report as JSON")
	if err := flags.Parse(args); err != nil {
		return s, "", err
	}
	s.Systems, s.Baselines = list(*systems), list(*baselines)
	for _, m := range list(*modes) {
		s.Modes = append(s.Modes, harness.Mode(m))
	}
	if s.Callers, err = numbers("callers", *callers); err != nil {
		return s, "", err
	}
	s.Rates, err = numbers("rates", *rates)
	return s, file, err
}

// numbers reads a flag that takes a list of them.
func numbers(flag, s string) ([]int, error) {
	var all []int
	for _, text := range list(s) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("bench: -%s takes numbers separated by commas: %w", flag, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// list splits at commas and drops what is empty.
func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
