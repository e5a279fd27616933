package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// remote measures one system whose servers run already, here or on other
// hosts. What the servers use is not known to it; they print it themselves.
func remote(ctx context.Context, args []string) error {
	return measure(ctx, args, "client", tableFlags{
		modes: "shared,percaller", callers: "100", rounds: 1, duration: 10 * time.Second, timeout: 3 * time.Minute,
	})
}

// serve runs the server of one system until it is interrupted.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench server", flag.ExitOnError)
	system := flags.String("system", "tandem", "system whose server is to run")
	listen := flags.String("listen", "127.0.0.1:7001", "address to listen on")
	work := flags.Duration("work", 0, "time for which a handler keeps its processor busy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	used, err := harness.Serve(ctx, *system, *listen, *work, func(addr string) {
		fmt.Fprintf(os.Stdout, "%s serves on %s until it is interrupted\n", *system, addr)
	})
	if err != nil {
		return err
	}
	const mib = 1 << 20
	fmt.Fprintf(os.Stdout, "%s used %v of processor time in %v, %d MB of memory at most, %d objects, %d reads and %d writes\n",
		*system, used.CPU, used.Wall.Round(time.Millisecond), used.Peak/mib, used.Mallocs, used.Reads, used.Writes)
	return nil
}
