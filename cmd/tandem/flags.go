package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// newFlags returns the flag set of a command. It prints nothing itself.
func newFlags(name string) *flag.FlagSet {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return set
}

// parse parses the flags of a command. If help is requested, it prints the usage and returns
// [flag.ErrHelp].
func parse(set *flag.FlagSet, sh *shell, args []string) error {
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(sh.out, set)
		return flag.ErrHelp
	}
	if err != nil {
		return usagef("%v; tandem help %s lists the flags", err, set.Name())
	}
	return nil
}

// printUsage prints the usage of a command.
func printUsage(w io.Writer, set *flag.FlagSet) {
	v, err := find(set.Name())
	if err != nil {
		return // every flag set has the name of a command
	}
	fmt.Fprintf(w, "usage: tandem %s %s\n\n%s\n\n", v.name, v.args, v.summary)
	set.SetOutput(w)
	set.PrintDefaults()
}

// noArgs fails if there are arguments, for a command that takes none.
func noArgs(set *flag.FlagSet) error {
	if set.NArg() > 0 {
		return usagef("%s takes no arguments, got %q", set.Name(), set.Arg(0))
	}
	return nil
}
