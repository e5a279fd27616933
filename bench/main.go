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
	"strings"
	"syscall"
)

// command is something that bench does. Its run gets the rest of the command
// line, and says itself what -h asks for.
type command struct {
	name, what string
	run        func(ctx context.Context, args []string) error
}

// commands are in the order in which they are listed; the first is meant when
// none is named.
var commands = []command{
	{"calls", "throughput, latency and CPU of calls, each system beside the others", calls},
	{"table", "the seeds' whole table: calls with its sizes; takes hours", table},
	{"java", "calls of systems in Java beside some in Go; needs a JDK and Maven", inJava},
	{"parser", "messages out of a stream of bytes, beside the figures of LittleRpc's document", parsing},
	{"balancers", "the choice of an instance, by every policy", balancing},
	{"dispatch", "calls of a service's methods, with inlining and without", dispatching},
	{"codecs", "each codec alone and in a call, beside net/rpc with the same", coding},
	{"large", "streams, large messages beside small calls, TLS, compression, plain bytes", largeAndMixed},
	{"curves", "throughput over requests, callers and connections, as a document drew it", curve},
	{"instructions", "instructions of a call, each system beside the others; needs valgrind", counting},
	{"connections", "memory of a server that holds very many connections", holdMany},
	{"report", "makes the report and the plots of kept results anew", report},
	{"compare", "sets two kept results side by side, or two outputs of go test -bench", compare},
	{"revisions", "compares the micro-benchmarks of the working tree with a revision's", compareRevisions},
	{"pairs", "calls of the working tree and of a revision, in turns, with the interval of their ratio", comparePairs},
	{"server", "one system's server, for a client on another host", serve},
	{"client", "calls to servers that run already", remote},
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
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return commands[0].run(ctx, args)
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, args[1:])
		}
	}
	var list strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&list, "\n  bench %-13s %s", c.name, c.what)
	}
	return fmt.Errorf("bench: no command %q; there are:%s", args[0], &list)
}
