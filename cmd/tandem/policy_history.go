package main

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

func newPolicyHistory(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history [flags] TARGET",
		Short:   "list the versions of a policy that are kept, the last one first",
		Example: "tandem policy history etcd://h1:2379/shop/policies/orders",
		Args:    wantArgs(1, 1),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, true, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where, err := targetOf(args[0])
		if err != nil {
			return err
		}
		var kept []history.Version
		err = inStore(cmd.Context(), where, func(ctx context.Context, s history.Store) (err error) {
			kept, err = s.Versions(ctx)
			return err
		})
		if err != nil {
			return interrupted(cmd.Context(), err)
		}
		return p.Print(policyHistory(where, kept))
	}
	return cmd
}

// versionList is what tandem policy history prints. Its fields are documented in docs/reference/cli.md.
type versionList struct {
	Target   string          `json:"target"`
	Versions []policyVersion `json:"versions"`
}

// policyVersion is a version of a policy.
type policyVersion struct {
	policy.Change

	Version string          `json:"version"`          // "" if the policy was deleted
	Policy  json.RawMessage `json:"policy,omitempty"` // left out if it is too large to be kept, or is not JSON
}

// policyHistory returns the versions that are kept, the last one first.
func policyHistory(target string, kept []history.Version) *listing.List {
	value := versionList{Target: registry.Redact(target), Versions: []policyVersion{}}
	list := &listing.List{Columns: []listing.Column{{Name: "REVISION"}, {Name: "VERSION"}, {Name: "AT"}, {Name: "BY"}, {Name: "WHY"}, {Name: "BYTES", Wide: true}}}
	for _, v := range slices.Backward(kept) {
		one, shown := policyVersion{Change: v.Change}, "deleted"
		switch {
		case v.Omitted != "": // its own version is not known, if it has one
			one.Version = v.Omitted[:min(len(v.Omitted), 12)]
			shown = one.Version
		case v.Text != "":
			one.Version = policy.VersionOf([]byte(v.Text))
			shown = one.Version
		}
		if json.Valid([]byte(v.Text)) {
			one.Policy = json.RawMessage(v.Text)
		}
		value.Versions = append(value.Versions, one)
		list.Rows = append(list.Rows, []string{strconv.Itoa(v.Revision), shown, stamp(v.At), v.By, v.Why, strconv.Itoa(len(v.Text))})
	}
	list.Value = value
	return list
}
