package main

import (
	"context"

	"github.com/tandem-rpc/tandem/bench/balancers"
)

// balancing is the choice of an instance, by every policy.
func balancing(ctx context.Context, args []string) error {
	flags := newMicroFlags("balancers", args)
	nodes := flags.String("nodes", "10,100,1000", "lengths of the list of instances")
	goroutines := flags.String("goroutines", "1,2,3,4,5,6,7,8", "numbers of goroutines that choose at the same time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var plan balancers.Plan
	var err error
	if plan.Nodes, err = numbers("nodes", *nodes); err != nil {
		return err
	}
	if plan.Goroutines, err = numbers("goroutines", *goroutines); err != nil {
		return err
	}
	if err := plan.Check(); err != nil {
		return err
	}
	return flags.run(ctx, plan.Tables, plan.Source())
}
