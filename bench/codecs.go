package main

import (
	"context"

	"github.com/tandem-rpc/tandem/bench/codecs"
)

// coding is the cost of each codec, alone and in a call.
func coding(ctx context.Context, args []string) error {
	flags := newMicroFlags("codecs", args)
	callers := flags.String("callers", "1,100", "numbers of callers that share a connection")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var plan codecs.Plan
	var err error
	if plan.Callers, err = numbers("callers", *callers); err != nil {
		return err
	}
	if err := plan.Check(); err != nil {
		return err
	}
	return flags.run(ctx, plan.Tables, plan.Source())
}
