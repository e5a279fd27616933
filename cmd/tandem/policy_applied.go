package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

func newPolicyApplied(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "applied [flags] TARGET",
		Short:   "list which version of a policy each client applies",
		Long:    "TARGET is a document of a registry, such as etcd://h1:2379/shop/policies/orders, or a file.",
		Example: "tandem policy applied etcd://h1:2379/shop/policies/orders",
		Args:    wantArgs(1, 1),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, true, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where, err := targetOf(args[0])
		if err != nil {
			return err
		}
		list, err := policyReports(cmd.Context(), where)
		if err != nil {
			return interrupted(cmd.Context(), err)
		}
		return p.Print(appliedList(where, list))
	}
	return cmd
}

// policyReports returns what clients report about a policy.
func policyReports(ctx context.Context, where string) ([]policy.Applied, error) {
	src, closeIt, err := policySource(where)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeIt() }() // an error of closing changes nothing here
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	return src.Applied(ctx)
}

// clientList is what tandem policy applied prints. Its fields are documented in docs/reference/cli.md.
type clientList struct {
	Target  string           `json:"target"`
	Clients []policy.Applied `json:"clients"`
}

// appliedList returns which version of a policy each client applies.
func appliedList(where string, reports []policy.Applied) *listing.List {
	list := &listing.List{Columns: []listing.Column{
		{Name: "CLIENT"}, {Name: "IN FORCE"}, {Name: "DOCUMENT", Wide: true}, {Name: "SINCE OR REFUSED"}, {Name: "WHY REFUSED"},
	}}
	for _, a := range reports {
		why := strings.ReplaceAll(a.Error, "\n", "; ")
		if why != "" && a.Version != "" {
			why = a.Version + ": " + why
		}
		list.Rows = append(list.Rows, []string{a.Client, cmp.Or(a.InForce, "none"), a.Version, stamp(a.At), why})
	}
	list.Value = clientList{registry.Redact(where), append([]policy.Applied{}, reports...)}
	return list
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
