package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/override"
)

func newInstanceHistory(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "history TARGET",
		Short:   "list the revisions of what is set, the last one first",
		Example: "tandem instance history etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inList(cmd.Context(), args[0], func(ctx context.Context, e *override.Editor) error {
				return showHistory(ctx, sh, e)
			})
		},
	}
}

// showHistory prints the revisions that are kept.
func showHistory(ctx context.Context, sh *shell, e *override.Editor) error {
	kept, err := e.Store.Versions(ctx)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "REVISION\tAT\tBY\tWHY\tSET")
	for _, v := range slices.Backward(kept) {
		o, err := override.Parse([]byte(v.Text))
		var set []string
		if err != nil {
			set = []string{err.Error()}
		} else {
			for i := range o.Set {
				set = append(set, describeOverride(&o.Set[i]))
			}
		}
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\n", v.Revision, v.At.UTC().Format(time.RFC3339), cmp.Or(v.By, "-"), cmp.Or(v.Why, "-"), cmp.Or(strings.Join(set, "; "), "nothing"))
	}
	return out.Flush()
}

// describeOverride says in one phrase for what something is set, and what.
func describeOverride(o *override.Override) string {
	name := o.Instance
	if name == "" {
		var pairs []string
		for label, value := range o.Labels {
			pairs = append(pairs, label+"="+value)
		}
		slices.Sort(pairs)
		name = strings.Join(pairs, ",")
	}
	if o.Weight > 0 {
		return fmt.Sprintf("%s weight %d", name, o.Weight)
	}
	return fmt.Sprintf("%s %s", name, o.State)
}
