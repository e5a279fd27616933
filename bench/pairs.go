package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/bench/pairs"
	"github.com/tandem-rpc/tandem/bench/progress"
)

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
	line := progress.New(os.Stderr)
	rows, err := pairs.Run(ctx, s, line)
	line.End()
	if err != nil {
		return err
	}
	return errors.Join(pairs.Write(os.Stdout, rows), pairs.Judge(rows, *limit/100))
}
