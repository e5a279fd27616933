// Bench measures what a call costs in tandem and in other frameworks. Run it
// from the root of the repository:
//
//	go run ./bench calls -callers 100,1000 -rounds 5
//
// README.md in this folder says what is measured and how.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// command is a subcommand of bench. Its run gets the rest of the command line, and handles
// -h itself.
type command struct {
	name, what string
	run        func(ctx context.Context, args []string) error
}

// others are the commands that are not scenarios.
var others = []command{
	{"pairs", "calls of the working tree and of a revision, in turns, with the interval of their ratio", comparePairs},
	{"revisions", "micro-benchmarks of the working tree beside those of a revision", compareRevisions},
	{"compare", "two kept results side by side, or two outputs of go test -bench", compare},
	{"report", "makes the report and the plots of kept results again, and README.md's block", report},
	{"draw", "draws charts in JSON from standard input into a folder", draw},
	{"server", "one system's server, for a client on another host", serve},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		fmt.Fprint(os.Stdout, usage())
		return nil
	}
	for _, s := range scenarios {
		if s.name == args[0] {
			return measure(ctx, s, args[1:])
		}
	}
	for _, c := range others {
		if c.name == args[0] {
			return c.run(ctx, args[1:])
		}
	}
	return fmt.Errorf("bench: no command %q\n%s", args[0], usage())
}

// usage returns the help text, which fits on one screen.
func usage() string {
	var b strings.Builder
	b.WriteString("usage: bench COMMAND [flags]; bench COMMAND -h lists its flags\n\n" +
		"Scenarios: each measures systems in turns, prints a table, and with -out keeps the result.\n")
	for _, s := range scenarios {
		fmt.Fprintf(&b, "  %-12s %s\n", s.name, s.what)
	}
	b.WriteString("\nOther commands:\n")
	for _, c := range others {
		fmt.Fprintf(&b, "  %-12s %s\n", c.name, c.what)
	}
	return b.String()
}
