package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
)

func newInstanceLs(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "ls TARGET",
		Short:   "list the instances with what is set for them",
		Example: "tandem instance ls etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inList(cmd.Context(), args[0], func(ctx context.Context, e *override.Editor) error {
				return showInstances(ctx, sh, e)
			})
		},
	}
}

// showInstances prints the list with what is set for it.
func showInstances(ctx context.Context, sh *shell, e *override.Editor) error {
	list, err := e.Instances(ctx)
	if err != nil {
		return err
	}
	o, err := e.Read(ctx)
	if err != nil {
		return err
	}
	effect := o.Apply(list, time.Now())
	weights := make(map[string]int)
	for _, in := range effect.Enabled {
		weights[in.ID] = cmp.Or(in.Weight, tandem.DefaultWeight)
	}
	out := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "INSTANCE\tSTATE\tWEIGHT\tVERSION\tZONE\tADDRESS\tWHY")
	for _, in := range list {
		state, weight, why := string(override.Enabled), strconv.Itoa(weights[in.ID]), "-"
		if s, out := effect.Withheld[in.ID]; out {
			state, weight, why = string(s.State), "-", strings.TrimPrefix(s.String(), string(s.State)+" ")
		}
		var address string
		if len(in.Endpoints) > 0 {
			address = in.Endpoints[0].String()
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", in.ID, state, weight, cmp.Or(in.Version, "-"), cmp.Or(in.Zone, "-"), address, why)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if o.Change.Revision == 0 {
		return nil
	}
	rollout, err := e.Rollout(ctx)
	if err == nil {
		fmt.Fprintf(sh.out, "revision %v\n", rollout)
	}
	return err
}
