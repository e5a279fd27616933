package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry/history"
)

func newPolicyHistory(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "history TARGET",
		Short:   "list the versions of a policy that are kept, the last one first",
		Example: "tandem policy history etcd://h1:2379/shop/policies/orders",
		Args:    wantArgs(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return policyHistory(cmd.Context(), sh, args[0]) },
	}
}

// policyHistory prints the versions of a policy that are kept, the last one first.
func policyHistory(ctx context.Context, sh *shell, where string) error {
	var kept []history.Version
	err := inStore(ctx, where, func(ctx context.Context, s history.Store) (err error) {
		kept, err = s.Versions(ctx)
		return err
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	out := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "REVISION\tVERSION\tAT\tBY\tWHY")
	for _, v := range slices.Backward(kept) {
		version := "deleted"
		if v.Text != "" || v.Omitted != "" {
			version = policy.VersionOf([]byte(v.Text))
		}
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\n", v.Revision, version, v.At.UTC().Format(time.RFC3339), cmp.Or(v.By, "-"), cmp.Or(v.Why, "-"))
	}
	return out.Flush()
}
