// Sim plays clusters in trouble in virtual time and reports what the policies did.
//
//	sim [-out DIR] [-seed N] [-only NAME] [-fault NAME]
//
// It ends with status 1 when a figure is missed. With -out it writes the report
// and the data of its plots there.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/tandem-rpc/tandem/internal/sim"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	out := flags.String("out", "", "write the report (README.md) and the data of its plots (charts.json) into this folder")
	seed := flags.Uint64("seed", 1, "decides everything that is drawn")
	only := flags.String("only", "", "play only the scenario of this name")
	fault := flags.String("fault", "", "plant this fault of that scenario")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scenarios, err := chosen(*only, *fault)
	if err != nil {
		return err
	}
	o := sim.Options{Seed: *seed, Fault: *fault}
	missed := 0
	results := sim.RunAll(scenarios, o, func(r sim.Result) {
		r.Table(w)
		missed += len(r.Missed(r.Outcome))
	})
	if *out != "" {
		if err := write(*out, results, o); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d figures or invariants are missed", missed)
	}
	return nil
}

// chosen returns the scenarios to play.
func chosen(only, fault string) ([]*sim.Scenario, error) {
	if only == "" {
		if fault != "" {
			return nil, errors.New("-fault needs -only: faults belong to scenarios")
		}
		return sim.Scenarios(), nil
	}
	var names []string
	for _, s := range sim.Scenarios() {
		names = append(names, s.Name)
		if s.Name != only {
			continue
		}
		if fault != "" && !slices.Contains(s.Faults, fault) {
			return nil, fmt.Errorf("scenario %s has no fault %q; it has %q", only, fault, s.Faults)
		}
		return []*sim.Scenario{s}, nil
	}
	return nil, fmt.Errorf("no scenario %q; there are %q", only, names)
}

func write(dir string, results []sim.Result, o sim.Options) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var report bytes.Buffer
	sim.Report(&report, results, o)
	if err := os.WriteFile(filepath.Join(dir, "README.md"), report.Bytes(), 0o644); err != nil {
		return err
	}
	charts, err := sim.Charts(results)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "charts.json"), charts, 0o644)
}
