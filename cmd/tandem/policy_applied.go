package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/policy"
)

func newPolicyApplied(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "applied TARGET",
		Short:   "list which version of a policy each client applies",
		Long:    "TARGET is a document of a registry, such as etcd://h1:2379/shop/policies/orders, or a file.",
		Example: "tandem policy applied etcd://h1:2379/shop/policies/orders",
		Args:    wantArgs(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return showApplied(cmd.Context(), sh, args[0]) },
	}
}

// showApplied prints which version of a policy each client applies.
func showApplied(ctx context.Context, sh *shell, where string) error {
	src, closeIt, err := policySource(where)
	if err != nil {
		return err
	}
	defer func() { _ = closeIt() }() // an error of closing changes nothing here
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	list, err := src.Applied(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	out := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "CLIENT\tIN FORCE\tSINCE OR REFUSED\tWHY REFUSED")
	for _, a := range list {
		why := strings.ReplaceAll(a.Error, "\n", "; ")
		if why != "" && a.Version != "" {
			why = a.Version + ": " + why
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", a.Client, cmp.Or(a.InForce, "none"), a.At.UTC().Format(time.RFC3339), cmp.Or(why, "-"))
	}
	return out.Flush()
}

// policySource returns the reports of a policy, in a file or in a registry, and a function that
// closes the registry.
func policySource(where string) (policy.Reports, func() error, error) {
	if !strings.Contains(where, "://") {
		return policy.File(where).(policy.Reports), func() error { return nil }, nil
	}
	documents, key, closeIt, err := openDocuments(where)
	if err != nil {
		return nil, nil, err
	}
	return policy.FromRegistry(documents, key).(policy.Reports), closeIt, nil
}
