package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// tableFlags are what the commands that print the table of calls have as
// defaults, and take from the command line. Lists are separated by commas.
type tableFlags struct {
	systems, modes, callers, deployments, works, rates, addrs, baselines string

	rounds   int
	duration time.Duration
	calls    int64
	timeout  time.Duration
}

// output is where a report goes besides the terminal; empty means nowhere.
type output struct {
	file   string // the whole report as JSON
	folder string // a kept result
}

// parse reads the command line. No systems means all. Without default
// deployments the servers run already, and their addresses are asked for.
func (f tableFlags) parse(name string, args []string) (s harness.Settings, to output, err error) {
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	if f.deployments == "" {
		flags.StringVar(&f.systems, "system", "tandem", "system to measure; the servers' too")
		flags.StringVar(&f.addrs, "addr", "", "addresses of the servers, host:port")
		f.deployments = string(harness.Elsewhere)
	} else {
		flags.StringVar(&f.systems, "systems", f.systems, "systems to measure (default if empty: all but those in Java)")
		flags.StringVar(&f.deployments, "deployment", f.deployments, "where servers and client are: same, apart, two-servers; all but same need root")
		flags.StringVar(&f.works, "work", f.works, "times for which a handler keeps its processor busy")
	}
	flags.StringVar(&f.modes, "mode", f.modes, "modes: shared, percaller")
	flags.StringVar(&f.callers, "callers", f.callers, "numbers of concurrent callers")
	flags.StringVar(&f.rates, "rates", "", "calls that begin a second, in an open loop, "+
		"or parts of the slowest system's peak such as 90% (default: a closed loop, as fast as it goes)")
	flags.StringVar(&f.baselines, "baselines", "netrpc,floor-mux,floor-plain,tandem", "systems that the others are divided by")
	flags.IntVar(&s.Conns, "conns", 2, "connections in the shared mode")
	flags.IntVar(&s.Rounds, "rounds", f.rounds, "rounds; each measures every system in every cell")
	flags.DurationVar(&s.Warmup, "warmup", time.Second, "time before each measurement")
	flags.DurationVar(&s.JavaWarmup, "java-warmup", time.Minute, "the same for systems in Java, which are compiled meanwhile")
	flags.DurationVar(&s.Duration, "duration", f.duration, "measure at least so long,")
	flags.Int64Var(&s.Calls, "calls", f.calls, "and at least so many calls")
	flags.DurationVar(&s.Timeout, "timeout", f.timeout, "time after which a measurement has failed")
	flags.StringVar(&to.file, "json", "", "file for the whole report as JSON")
	flags.StringVar(&to.folder, "out", "", "folder that keeps the result, such as bench/results/2026-01-31-calls; "+
		"if it holds rounds with equal settings, these are added")
	if err := flags.Parse(args); err != nil {
		return s, to, err
	}
	return s, to, f.fill(&s)
}

// fill puts the lists into the settings.
func (f tableFlags) fill(s *harness.Settings) (err error) {
	s.Systems, s.Baselines, s.Addrs = list(f.systems), list(f.baselines), list(f.addrs)
	for _, m := range list(f.modes) {
		s.Modes = append(s.Modes, harness.Mode(m))
	}
	for _, d := range list(f.deployments) {
		s.Deployments = append(s.Deployments, harness.Deployment(d))
	}
	for _, text := range list(f.works) {
		work, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("bench: -work takes times separated by commas: %w", err)
		}
		s.Works = append(s.Works, work)
	}
	if s.Callers, err = numbers("callers", f.callers); err != nil {
		return err
	}
	s.Rates, s.Percents, err = rates(f.rates)
	return err
}

// rates reads the flag -rates: numbers of calls a second, or percentages.
func rates(text string) (rates, percents []int, err error) {
	texts := list(text)
	isPercent := func(s string) bool { return strings.HasSuffix(s, "%") }
	if !slices.ContainsFunc(texts, isPercent) {
		rates, err = numbers("rates", text)
		return rates, nil, err
	}
	for i, t := range texts {
		if !isPercent(t) {
			return nil, nil, fmt.Errorf("bench: -rates %s: numbers or percentages, not both", text)
		}
		texts[i] = strings.TrimSuffix(t, "%")
	}
	percents, err = numbers("rates", strings.Join(texts, ","))
	return nil, percents, err
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
