package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem/bench/progress"
	"github.com/tandem-rpc/tandem/bench/revisions"
)

// hotPackages are those that a call runs through. One without benchmarks still
// has its allocation budgets tested.
const hotPackages = ".,wire,codec,codec/msgpack,codec/protobuf,compress,balance,internal/dispatch,internal/session,client,server,plugin/accesslog,plugin/metrics,plugin/trace"

// budgetTests is the pattern of the tests that hold allocation budgets.
const budgetTests = "Alloc|NoCopy|SteadyState|UsedAgain"

// unfit is the pattern of benchmarks whose time and allocations say nothing about
// this code: one counts what it prepares, so its figures depend on how often it runs;
// one measures memory and sleeps for it, and its hundreds of connections allocate as
// the collector empties pools; the others are what bufio and Go's own calls take,
// beside which ours are set.
const unfit = "^BenchmarkLookup$|^BenchmarkClientMemory$|^BenchmarkParser$/.*/.*/^bufio$|^BenchmarkCall$/Call$"

// compareRevisions compares the micro-benchmarks of the working tree with those
// of a revision.
func compareRevisions(ctx context.Context, args []string) (err error) {
	var s revisions.Settings
	flags := flag.NewFlagSet("bench revisions", flag.ExitOnError)
	packages := flags.String("packages", hotPackages, "folders with benchmarks, separated by commas")
	limit := flags.Float64("limit", 5, "fail when the geometric mean is worse by more than so many percent")
	flags.StringVar(&s.Base, "base", "HEAD", "revision that the working tree is compared with")
	flags.StringVar(&s.Bench, "bench", ".", "pattern of the benchmarks")
	flags.StringVar(&s.Skip, "skip", unfit, "pattern of benchmarks to leave out")
	flags.IntVar(&s.Count, "count", 8, "runs of each benchmark at each revision")
	flags.StringVar(&s.Time, "time", "50ms", "time of a run, as go test -benchtime takes it")
	flags.StringVar(&s.Budgets, "budgets", budgetTests, "pattern of the tests with allocation budgets")
	flags.StringVar(&s.Out, "out", "", "folder to keep both outputs of go test -bench in (default: none)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.Packages = list(*packages)
	if s.Out == "" {
		if s.Out, err = os.MkdirTemp("", "bench-revisions-out-"); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.Out)) }()
	} else if err := os.MkdirAll(s.Out, 0o755); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	line := progress.New(os.Stderr)
	err = revisions.Run(ctx, s, line)
	line.End()
	if err != nil {
		return err
	}
	c, err := compareOutputs(ctx, filepath.Join(s.Out, revisions.OldFile), filepath.Join(s.Out, revisions.NewFile))
	if err != nil {
		return err
	}
	return c.Judge(*limit / 100)
}
