package main

import (
	"context"
	"flag"
	"os"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/bench/large"
	"github.com/tandem-rpc/tandem/bench/progress"
)

// largeAndMixed is the command large: what the table of small calls leaves out.
func largeAndMixed(ctx context.Context, args []string) error {
	var s large.Settings
	flags := flag.NewFlagSet("bench large", flag.ExitOnError)
	parts := flags.String("parts", strings.Join(large.Names(), ","), "what to measure")
	flags.IntVar(&s.Rounds, "rounds", 3, "rounds; each measures every system of a part")
	flags.DurationVar(&s.Warmup, "warmup", time.Second, "time before each measurement")
	flags.DurationVar(&s.Duration, "duration", 5*time.Second, "measure so long")
	flags.DurationVar(&s.Timeout, "timeout", 3*time.Minute, "time after which a measurement has failed")
	var to destination
	to.flags(flags, args)
	if err := flags.Parse(args); err != nil {
		return err
	}
	line := progress.New(os.Stderr)
	report, err := large.Run(ctx, list(*parts), s, line)
	line.End()
	if report == nil {
		return err
	}
	return to.publish(ctx, report, err)
}
