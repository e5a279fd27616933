package main

import (
	"context"
	"maps"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/override"
)

func newInstanceTag(sh *shell) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "tag [flags] TARGET INSTANCE… NAME=VALUE[,NAME=VALUE…]",
		Short: "set tags of instances, by which routes choose",
		Long: chosenForm + "\nThe tags replace those that were set before; NAME= takes away a tag with which the server has registered.\n" +
			"tandem instance clear ends that.",
		Example: "tandem instance tag etcd://h1:2379/shop/Cart cart-3 lane=blue",
		Args:    wantArgs(3, -1),
	}
	f.add(cmd)
	out := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(true, false, contextTargets, instanceIDs)
	until := lastFlag(cmd)
	cmd.RunE = changer(out, func(ctx context.Context, e *override.Editor, args []string) error {
		last := len(args) - 1
		tags := parseLabels(args[last])
		if tags == nil {
			return usagef("tags %q: want name=value, or several of them with commas between", args[last])
		}
		chosen, err := choose(ctx, e, args[:last], f.force)
		if err != nil {
			return err
		}
		for i := range chosen {
			chosen[i].Tags, chosen[i].Until = maps.Clone(tags), until()
		}
		_, err = e.Set(ctx, f.request(), chosen...)
		return err
	})
	return cmd
}
