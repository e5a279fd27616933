package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/override"
)

func newInstanceClear(sh *shell) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:     "clear [flags] TARGET INSTANCE…",
		Short:   "remove what is set for instances",
		Long:    chosenForm,
		Example: "tandem instance clear etcd://h1:2379/shop/Cart cart-3",
		Args:    wantArgs(2, -1),
	}
	f.add(cmd)
	out := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(true, false, contextTargets, instanceIDs)
	cmd.RunE = changer(out, func(ctx context.Context, e *override.Editor, args []string) error {
		chosen, err := choose(ctx, e, args, true) // what is set for an instance outlives its listing
		if err != nil {
			return err
		}
		_, err = e.Clear(ctx, f.request(), chosen...)
		return err
	})
	return cmd
}
