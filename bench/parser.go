package main

import (
	"context"

	"github.com/tandem-rpc/tandem/bench/parser"
)

// parsing is the table of seed 003: getting messages out of a stream of bytes.
func parsing(ctx context.Context, args []string) error {
	flags := newMicroFlags("parser", args)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return flags.run(ctx, parser.Tables, parser.Source())
}
