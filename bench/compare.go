package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/tandem-rpc/tandem/bench/result"
	"github.com/tandem-rpc/tandem/bench/revisions"
)

// compare sets two kept results side by side, or two outputs of go test -bench.
func compare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench compare", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: bench compare OLD NEW\n  each a kept result, or each a file with the output of go test -bench")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("bench: compare takes two kept results, or two outputs of go test -bench")
	}
	older, newer := flags.Arg(0), flags.Arg(1)
	if isBenchOutput(older) && isBenchOutput(newer) {
		_, err := compareOutputs(ctx, older, newer)
		return err
	}
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

// isBenchOutput tells the output of go test -bench from a kept result. A file
// that can't be read is neither; whoever loads it says why.
func isBenchOutput(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && !strings.HasPrefix(string(text), "{")
}

// compareOutputs prints benchstat's table, and then what bench revisions judges by.
func compareOutputs(ctx context.Context, older, newer string) (c revisions.Comparison, err error) {
	was, err := revisions.ReadFile(older)
	if err != nil {
		return c, err
	}
	is, err := revisions.ReadFile(newer)
	if err != nil {
		return c, err
	}
	if err := revisions.Benchstat(ctx, os.Stdout, older, newer); err != nil {
		return c, err
	}
	c = revisions.Compare(was, is)
	return c, c.Write(os.Stdout)
}
