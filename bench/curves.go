package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/bench/curves"
	"github.com/tandem-rpc/tandem/bench/progress"
)

// curve is the command curves: seed 004's, with its figures beside.
func curve(ctx context.Context, args []string) error {
	var s curves.Settings
	flags := flag.NewFlagSet("bench curves", flag.ExitOnError)
	systems := flags.String("systems", "tandem,netrpc,netrpc-gob", "systems to measure; netrpc-gob is what the document measured")
	requests := flags.String("requests", "1,10,100,1000,10000,100000", "calls one after the other on one connection")
	callers := flags.String("callers", "1,2,5,10,20,50,100,150,200,500,1000", "callers on one connection")
	conns := flags.String("connections", "1,2,5,10,20,50,100,150", "connections")
	flags.IntVar(&s.PerConn, "per-connection", 100, "callers on each of them")
	flags.IntVar(&s.Rounds, "rounds", 3, "rounds; each measures every system at every point")
	flags.DurationVar(&s.Warmup, "warmup", 500*time.Millisecond, "time before each measurement")
	flags.DurationVar(&s.Duration, "duration", 2*time.Second, "measure so long")
	flags.DurationVar(&s.Timeout, "timeout", 3*time.Minute, "time after which a measurement has failed")
	var to destination
	to.flags(flags, args)
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	s.Systems = list(*systems)
	if s.Requests, err = numbers("requests", *requests); err != nil {
		return err
	}
	if s.Callers, err = numbers("callers", *callers); err != nil {
		return err
	}
	if s.Connections, err = numbers("connections", *conns); err != nil {
		return err
	}
	line := progress.New(os.Stderr)
	report, err := curves.Run(ctx, s, line)
	line.End()
	if report == nil {
		return err
	}
	return to.publish(ctx, report, err)
}
