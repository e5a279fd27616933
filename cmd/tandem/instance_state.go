package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/override"
)

// newInstanceState returns the command that sets a state.
func newInstanceState(sh *shell, name, short string, state override.State) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:     name + " [flags] TARGET INSTANCE…",
		Short:   short,
		Long:    chosenForm,
		Example: "tandem instance " + name + " --why 'new disk' etcd://h1:2379/shop/Cart cart-3",
		Args:    wantArgs(2, -1),
	}
	f.add(cmd)
	out := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(true, false, contextTargets, instanceIDs)
	until := lastFlag(cmd)
	cmd.RunE = changer(out, func(ctx context.Context, e *override.Editor, args []string) error {
		chosen, err := choose(ctx, e, args, f.force)
		if err != nil {
			return err
		}
		for i := range chosen {
			chosen[i].State, chosen[i].Until = state, until()
		}
		_, err = e.Set(ctx, f.request(), chosen...)
		return err
	})
	return cmd
}
