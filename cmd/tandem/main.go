// Command tandem shows, serves and calls.
//
//	tandem demo                                     a cluster under load, while servers are killed
//	tandem serve -listen tcp://127.0.0.1:8972       the demo services
//	tandem call tcp://127.0.0.1:8972 Arith.Mul '{"A":7,"B":8}'
//	tandem policy check policy.yaml                 check a policy and print it
//	tandem policy put policy.yaml etcd://h1:2379/shop/policies/orders
//
//	tandem instance disable etcd://h1:2379/shop/Cart cart-3
//
// tandem help lists the commands and the exit codes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, &shell{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// shell has the standard streams of a command.
type shell struct {
	in       io.Reader
	out, err io.Writer
}

// verb is a command.
type verb struct {
	name    string
	args    string // arguments, for its usage line
	summary string // "" hides it
	run     func(ctx context.Context, sh *shell, args []string) error
}

// verbs returns the commands. The ctx of run ends at the first SIGINT or SIGTERM.
func verbs() []verb {
	return []verb{
		{"demo", "[flags]", "run a cluster under load while servers are killed, drained and added", runDemo},
		{"serve", "[flags]", "serve the demo services until a signal", runServe},
		{"call", "[flags] TARGET METHOD [JSON]", "make one call and print the answer", runCall},
		{"instance", instanceArgs, "list the instances of a service, and say which get calls and how many", runInstance},
		{"policy", policyArgs, "check a policy, put it where clients read it, show which have applied it, or restore an earlier one", runPolicy},
		{"version", "", "print the version", runVersion},
		{"help", "[COMMAND]", "print this, or what a command takes", runHelp},
		{demoServer, "", "", runDemoServer},
	}
}

// find returns the command of that name.
func find(name string) (verb, error) {
	for _, v := range verbs() {
		if v.name == name {
			return v, nil
		}
	}
	return verb{}, usagef("no command %q; tandem help lists them", name)
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, sh *shell, args []string) int {
	err := dispatch(ctx, sh, args)
	if err != nil && !errors.Is(err, errShown) && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(sh.err, "tandem:", describe(err))
	}
	return exitCode(err)
}

func dispatch(ctx context.Context, sh *shell, args []string) error {
	if len(args) == 0 {
		printHelp(sh.err)
		return errShown
	}
	name := args[0]
	if name == "-h" || name == "-help" || name == "--help" {
		name = "help"
	}
	v, err := find(name)
	if err != nil {
		return err
	}
	return v.run(ctx, sh, args[1:])
}
