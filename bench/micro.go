package main

import (
	"context"
	"flag"
	"io"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/micro"
	"github.com/tandem-rpc/tandem/bench/progress"
)

// microFlags are what the commands that run benchmarks have in common.
type microFlags struct {
	*flag.FlagSet
	settings micro.Settings
	to       destination
}

func newMicroFlags(command string, args []string) *microFlags {
	f := &microFlags{FlagSet: flag.NewFlagSet("bench "+command, flag.ExitOnError)}
	f.IntVar(&f.settings.Count, "count", 5, "rounds; each runs every benchmark once")
	f.DurationVar(&f.settings.Time, "benchtime", 200*time.Millisecond, "time of a benchmark in a round")
	f.to.flags(f.FlagSet, args)
	return f
}

// run measures the sources, prints the tables and writes the file.
func (f *microFlags) run(ctx context.Context, tables func(micro.Results) []figures.Table, sources ...micro.Source) error {
	line := progress.New(os.Stderr)
	report, err := micro.Run(ctx, f.settings, line, sources...)
	line.End()
	if err != nil {
		return err
	}
	return f.to.show(ctx, report, func(w io.Writer) error { return report.Write(w, tables(report.Results)...) })
}
