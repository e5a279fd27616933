package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/tandem-rpc/tandem/bench/result"
)

// compare sets two kept results side by side.
func compare(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("bench compare", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: bench compare OLD NEW\n  each a kept result")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("bench: compare takes two kept results")
	}
	older, newer := flags.Arg(0), flags.Arg(1)
	was, err := result.Load(older)
	if err != nil {
		return err
	}
	is, err := result.Load(newer)
	if err != nil {
		return err
	}
	return result.Compare(os.Stdout, was, is)
}
