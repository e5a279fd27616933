package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/pairs"
	"github.com/tandem-rpc/tandem/bench/result"
	"github.com/tandem-rpc/tandem/bench/revisions"
)

// compare compares two kept results, or two outputs of go test -bench.
func compare(_ context.Context, args []string) error {
	if len(args) != 2 { //nolint:mnd // old and new
		return errors.New("bench: usage: bench compare OLD NEW, both kept results (a folder or its report.json), or both outputs of go test -bench")
	}
	if isBenchOutput(args[0]) && isBenchOutput(args[1]) {
		c, err := revisions.CompareFiles(args[0], args[1])
		if err != nil {
			return err
		}
		return c.Write(os.Stdout)
	}
	was, err := result.Load(args[0])
	if err != nil {
		return err
	}
	is, err := result.Load(args[1])
	if err != nil {
		return err
	}
	return result.Compare(os.Stdout, was, is)
}

// isBenchOutput reports whether a file is the output of go test -bench. It returns false if
// the file can't be read; Load returns the reason.
func isBenchOutput(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && !strings.HasPrefix(string(text), "{")
}

// comparePairs measures calls of the working tree and of a revision in turns.
func comparePairs(ctx context.Context, args []string) error {
	var s pairs.Settings
	flags := flag.NewFlagSet("bench pairs", flag.ExitOnError)
	limit := flags.Float64("limit", 2, "fail when a loss of more than so many percent is not excluded")
	flags.StringVar(&s.Base, "base", "HEAD", "revision that the working tree is compared with")
	flags.IntVar(&s.Pairs, "pairs", 20, "pairs of runs")
	flags.StringVar(&s.Callers, "callers", "1,16,100,1000", "numbers of concurrent callers")
	flags.StringVar(&s.Modes, "mode", "shared,percaller", "modes: shared, percaller")
	flags.DurationVar(&s.Duration, "duration", time.Second, "measure so long")
	flags.DurationVar(&s.Warmup, "warmup", 200*time.Millisecond, "time before each measurement")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rows, err := pairs.Run(ctx, s, os.Stderr)
	if err != nil {
		return err
	}
	return errors.Join(pairs.Write(os.Stdout, rows), pairs.Judge(rows, *limit/100))
}

// hotPackages are the packages that run during a call.
const hotPackages = ".,wire,codec,codec/msgpack,codec/protobuf,compress,balance,internal/dispatch,internal/session,client,server,plugin/accesslog,plugin/metrics,plugin/trace"

// unfit is the pattern of benchmarks whose time and allocations say nothing about this
// code: one counts its preparation, so its result depends on the number of runs; one
// measures memory and sleeps for it, and its hundreds of connections allocate as the
// collector empties pools; the others measure bufio and Go's own calls, for comparison.
const unfit = "^BenchmarkLookup$|^BenchmarkClientMemory$|^BenchmarkParser$/.*/.*/^bufio$|^BenchmarkCall$/Call$"

// compareRevisions compares the micro-benchmarks of the working tree with those
// of a revision.
func compareRevisions(ctx context.Context, args []string) error {
	var s revisions.Settings
	flags := flag.NewFlagSet("bench revisions", flag.ExitOnError)
	packages := flags.String("packages", hotPackages, "folders with benchmarks, separated by commas")
	limit := flags.Float64("limit", 5, "fail when the geometric mean is worse by more than so many percent")
	flags.StringVar(&s.Base, "base", "HEAD", "revision that the working tree is compared with")
	flags.StringVar(&s.Bench, "bench", ".", "pattern of the benchmarks")
	flags.StringVar(&s.Skip, "skip", unfit, "pattern of benchmarks to leave out")
	flags.IntVar(&s.Count, "count", 8, "runs of each benchmark at each revision")
	flags.StringVar(&s.Time, "time", "50ms", "time of a run, as go test -benchtime takes it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.Packages = list(*packages)
	c, err := revisions.Run(ctx, s, os.Stderr)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return errors.Join(c.Write(os.Stdout), c.Judge(*limit/100))
}
