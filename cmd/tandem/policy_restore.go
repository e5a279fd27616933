package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry/history"
)

func newPolicyRestore(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "restore [flags] TARGET REVISION",
		Short:   "put an earlier version of a policy in force again",
		Example: "tandem policy restore etcd://h1:2379/shop/policies/orders 1",
		Args:    wantArgs(2, 2),
	}
	change := authorFlags(cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where, err := targetOf(args[0])
		if err != nil {
			return err
		}
		return restorePolicy(cmd.Context(), sh, *change, where, args[1])
	}
	return cmd
}

// restorePolicy makes an earlier version of a policy the one in force.
func restorePolicy(ctx context.Context, sh *shell, c policy.Change, where, revision string) error {
	n, err := strconv.Atoi(revision)
	if err != nil {
		return usagef("revision %q: want a number; tandem policy history lists them", revision)
	}
	var v history.Version
	err = inStore(ctx, where, func(ctx context.Context, s history.Store) (err error) {
		v, err = history.RestorePolicy(ctx, s, c, n)
		return err
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	fmt.Fprintf(sh.out, "%s: revision %d is in force again, as revision %d\n", where, n, v.Revision)
	return nil
}
