package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// settings are a scenario's flags. Lists are separated by commas.
type settings struct {
	systems, modes, callers, deployments, works, rates, addrs, baselines string

	conns, rounds             int
	warmup, duration, timeout time.Duration
	calls                     int64
}

// output says where a report is written besides the terminal; empty means nowhere.
type output struct {
	file   string // every sample as JSON, for other programs
	folder string // a kept result
}

// parse reads the command line.
func (f settings) parse(name string, args []string) (s harness.Settings, to output, err error) {
	flags := flag.NewFlagSet("bench "+name, flag.ExitOnError)
	if f.deployments == string(harness.Elsewhere) {
		flags.StringVar(&f.systems, "system", f.systems, "system to measure; the servers' too")
		flags.StringVar(&f.addrs, "addr", "", "addresses of the servers, host:port")
	} else {
		flags.StringVar(&f.systems, "systems", f.systems, "systems to measure (default if empty: all)")
		flags.StringVar(&f.deployments, "deployment", f.deployments, "where servers and client are: same, apart, two-servers; all but same need root")
		flags.StringVar(&f.works, "work", f.works, "times for which a handler keeps its processor busy")
	}
	flags.StringVar(&f.modes, "mode", f.modes, "modes: shared, percaller")
	flags.StringVar(&f.callers, "callers", f.callers, "numbers of concurrent callers")
	flags.StringVar(&f.rates, "rates", f.rates, "calls that begin a second, in an open loop (empty: a closed loop, as fast as it goes)")
	flags.StringVar(&f.baselines, "baselines", f.baselines, "systems that the others are divided by")
	flags.IntVar(&s.Conns, "conns", f.conns, "connections in the shared mode")
	flags.IntVar(&s.Rounds, "rounds", f.rounds, "rounds; each measures every system in every cell")
	flags.DurationVar(&s.Warmup, "warmup", f.warmup, "time before each measurement")
	flags.DurationVar(&s.Duration, "duration", f.duration, "measure at least so long,")
	flags.Int64Var(&s.Calls, "calls", f.calls, "and at least so many calls")
	flags.DurationVar(&s.Timeout, "timeout", f.timeout, "time after which a measurement has failed")
	flags.StringVar(&to.file, "json", "", "file for every sample as JSON")
	flags.StringVar(&to.folder, "out", "", "folder that keeps the result in place of the last, such as bench/results/"+name)
	if err := flags.Parse(args); err != nil {
		return s, to, err
	}
	return s, to, f.fill(&s)
}

// fill parses the lists into the settings.
func (f settings) fill(s *harness.Settings) (err error) {
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
	s.Rates, err = numbers("rates", f.rates)
	return err
}

// numbers parses a flag that is a list of numbers.
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

// list splits at commas and drops empty elements.
func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
