package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/instructions"
	"github.com/tandem-rpc/tandem/bench/progress"
)

// counting is the command instructions: what a call executes, under valgrind.
func counting(ctx context.Context, args []string) error {
	var s instructions.Settings
	flags := flag.NewFlagSet("bench instructions", flag.ExitOnError)
	systems := flags.String("systems", "tandem,floor-mux,netrpc", "systems to count")
	mode := flags.String("mode", string(harness.Shared), "how callers and connections belong together; no other can be counted")
	flags.IntVar(&s.Callers, "callers", 100, "concurrent callers")
	flags.IntVar(&s.Conns, "conns", 2, "connections that they share")
	flags.IntVar(&s.Rounds, "rounds", 3, "rounds; each counts every system")
	flags.DurationVar(&s.Warmup, "warmup", 10*time.Second, "time before the counting")
	flags.Int64Var(&s.Calls, "calls", 30000, "count at least so many calls")
	flags.DurationVar(&s.Timeout, "timeout", 5*time.Minute, "time after which a system has failed in a round")
	var to destination
	to.flags(flags, args)
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.Systems, s.Mode = list(*systems), harness.Mode(*mode)
	line := progress.New(os.Stderr)
	report, err := instructions.Run(ctx, s, line)
	line.End()
	if report == nil {
		return err
	}
	return to.publish(ctx, report, err)
}
