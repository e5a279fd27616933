package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
)

func newInstanceWeight(sh *shell) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:     "weight [flags] TARGET INSTANCE… WEIGHT",
		Short:   "give instances another share of the calls; 100 is usual",
		Long:    chosenForm,
		Example: "tandem instance weight --ramp 10m etcd://h1:2379/shop/Cart version=1.5 20",
		Args:    wantArgs(3, -1),
	}
	f.add(cmd)
	out := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(true, false, contextTargets, instanceIDs)
	until := lastFlag(cmd)
	ramp := cmd.Flags().Duration("ramp", 0, "time in which the weight changes to the new one")
	cmd.RunE = changer(out, func(ctx context.Context, e *override.Editor, args []string) error {
		last := len(args) - 1
		weight, err := strconv.Atoi(args[last])
		if err != nil || weight < 1 || weight > tandem.MaxWeight {
			return usagef("weight %q: want a number from 1 to %d; tandem instance disable stops the calls", args[last], tandem.MaxWeight)
		}
		chosen, err := choose(ctx, e, args[:last], f.force)
		if err != nil {
			return err
		}
		for i := range chosen {
			chosen[i].Weight, chosen[i].Ramp, chosen[i].Until = weight, policy.Duration(*ramp), until()
		}
		_, err = e.Set(ctx, f.request(), chosen...)
		return err
	})
	return cmd
}
