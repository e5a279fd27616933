// Sim plays clusters in trouble in virtual time and reports what the policies did.
//
//	sim [-out DIR] [-seed N] [-large] [-only NAME] [-fault NAME]
//
// It ends with status 1 when a figure is missed. With -out it writes the report
// and the data of its plots there. With -large it plays the scenarios that take minutes, whose
// report is large.md.
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
	large := flags.Bool("large", false, "play the large scenarios, which take minutes, instead of the others")
	only := flags.String("only", "", "play only the scenario of this name")
	fault := flags.String("fault", "", "plant this fault of that scenario")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, files := sim.Scenarios(), output{"README.md", "charts.json", sim.Report}
	if *large {
		all, files = sim.Large(), output{"large.md", "large.json", sim.ReportLarge}
	}
	scenarios, err := chosen(all, *only, *fault)
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
		if err := files.save(*out, results, o); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d figures or invariants are missed", missed)
	}
	return nil
}

// chosen returns the scenarios to play.
func chosen(all []*sim.Scenario, only, fault string) ([]*sim.Scenario, error) {
	if only == "" {
		if fault != "" {
			return nil, errors.New("-fault needs -only: faults belong to scenarios")
		}
		return all, nil
	}
	var names []string
	for _, s := range all {
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

// output says how results are written.
type output struct {
	report, charts string // names of the files
	write          func(io.Writer, []sim.Result, sim.Options)
}

func (f output) save(dir string, results []sim.Result, o sim.Options) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var report bytes.Buffer
	f.write(&report, results, o)
	if err := os.WriteFile(filepath.Join(dir, f.report), report.Bytes(), 0o644); err != nil {
		return err
	}
	charts, err := sim.Charts(results)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, f.charts), charts, 0o644)
}
