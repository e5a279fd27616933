package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

func newInstanceHistory(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history [flags] TARGET",
		Short:   "list the revisions of what is set, the last one first",
		Example: "tandem instance history etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return inList(cmd.Context(), args[0], func(ctx context.Context, target string, e *override.Editor) error {
			kept, err := e.Store.Versions(ctx)
			if err != nil {
				return err
			}
			return p.Print(instanceHistory(target, kept))
		})
	}
	return cmd
}

// revisionList is what tandem instance history prints. Its fields are documented in docs/reference/cli.md.
type revisionList struct {
	Target    string        `json:"target"`
	Revisions []setRevision `json:"revisions"`
}

// setRevision is a revision of what is set for instances.
type setRevision struct {
	policy.Change

	Set   []override.Override `json:"set"`
	Error string              `json:"error,omitempty"` // why the document can't be read
}

// instanceHistory returns the revisions that are kept, the last one first.
func instanceHistory(target string, kept []history.Version) *listing.List {
	value := revisionList{Target: registry.Redact(target), Revisions: []setRevision{}}
	list := &listing.List{Columns: []listing.Column{{Name: "REVISION"}, {Name: "AT"}, {Name: "BY"}, {Name: "WHY"}, {Name: "SET"}}}
	for _, v := range slices.Backward(kept) {
		r := setRevision{Change: v.Change, Set: []override.Override{}}
		var set []string
		if o, err := override.Parse([]byte(v.Text)); err != nil {
			r.Error, set = err.Error(), []string{err.Error()}
		} else {
			for i := range o.Set {
				set = append(set, describeOverride(&o.Set[i]))
			}
			r.Set = append(r.Set, o.Set...)
		}
		value.Revisions = append(value.Revisions, r)
		list.Rows = append(list.Rows, []string{strconv.Itoa(v.Revision), stamp(v.At), v.By, v.Why, cmp.Or(strings.Join(set, "; "), "nothing")})
	}
	list.Value = value
	return list
}

// describeOverride says in one phrase for what something is set, and what.
func describeOverride(o *override.Override) string {
	name := o.Instance
	if name == "" {
		name = pairs(o.Labels)
	}
	if len(o.Tags) > 0 {
		return fmt.Sprintf("%s tags %s", name, pairs(o.Tags))
	}
	if o.Weight == 0 {
		return fmt.Sprintf("%s %s", name, o.State)
	}
	text := fmt.Sprintf("%s weight %d", name, o.Weight)
	if o.From > 0 {
		text += fmt.Sprintf(" from %d", o.From)
	}
	if o.Ramp > 0 {
		text += fmt.Sprintf(" within %v", time.Duration(o.Ramp))
	}
	return text
}
