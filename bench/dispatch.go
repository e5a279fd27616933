package main

import (
	"context"

	"github.com/tandem-rpc/tandem/bench/dispatch"
)

// dispatching is the call of a service's method.
func dispatching(ctx context.Context, args []string) error {
	flags := newMicroFlags("dispatch", args)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return flags.run(ctx, dispatch.Tables, dispatch.Sources()...)
}
