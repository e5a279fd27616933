package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/override"
)

func newInstanceRestore(sh *shell) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:     "restore [flags] TARGET REVISION",
		Short:   "set again what was set at an earlier revision",
		Example: "tandem instance restore etcd://h1:2379/shop/Cart 1",
		Args:    wantArgs(2, 2),
	}
	f.add(cmd)
	out := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	cmd.RunE = changer(out, func(ctx context.Context, e *override.Editor, args []string) error {
		revision, err := strconv.Atoi(args[0])
		if err != nil {
			return usagef("revision %q: want a number; tandem instance history lists them", args[0])
		}
		_, err = e.Restore(ctx, f.request(), revision)
		return err
	})
	return cmd
}
