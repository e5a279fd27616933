package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/bench/connections"
	"github.com/tandem-rpc/tandem/bench/progress"
)

// holdMany is the command connections: what a connection costs a server that
// holds very many.
func holdMany(ctx context.Context, args []string) error {
	var s connections.Settings
	flags := flag.NewFlagSet("bench connections", flag.ExitOnError)
	systems := flags.String("systems", "tandem,netrpc", "systems whose server holds the connections; tandem+tls and netrpc+tls have TLS")
	sizes := flags.String("connections", "10000,200000", "connections a server holds, as far as the limits allow")
	flags.IntVar(&s.PerProcess, "per-process", 10000, "connections a client process holds at most")
	flags.IntVar(&s.Pace, "pace", 4000, "connections opened a second")
	flags.Float64Var(&s.Share, "share", 0.01, "part of the connections that calls in the end")
	flags.IntVar(&s.Rate, "rate", 0, "calls a second that they make together (default: a closed loop, as fast as it goes)")
	flags.DurationVar(&s.Warmup, "warmup", time.Second, "time before the calls are measured")
	flags.DurationVar(&s.Duration, "duration", 5*time.Second, "measure them so long")
	flags.DurationVar(&s.Timeout, "timeout", 5*time.Minute, "time after which a server with its connections has failed")
	var to destination
	to.flags(flags, args)
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	s.Systems = list(*systems)
	if s.Sizes, err = numbers("connections", *sizes); err != nil {
		return err
	}
	line := progress.New(os.Stderr)
	report, err := connections.Run(ctx, s, line)
	line.End()
	if report == nil {
		return err
	}
	return to.publish(ctx, report, err)
}
