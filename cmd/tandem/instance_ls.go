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

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

func newInstanceLs(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [flags] TARGET",
		Short:   "list the instances with what is set for them",
		Example: "tandem instance ls etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return inList(cmd.Context(), args[0], func(ctx context.Context, target string, e *override.Editor) error {
			return showInstances(ctx, p, target, e)
		})
	}
	return cmd
}

// instanceList is what the commands print of a list of instances. Its fields are documented in
// docs/reference/cli.md.
type instanceList struct {
	Target    string              `json:"target"`
	Instances []listedInstance    `json:"instances"`
	Set       []override.Override `json:"set,omitempty"`     // all overrides in force
	Rollout   *rollout            `json:"rollout,omitempty"` // nil if nothing was ever set
}

// listedInstance is an instance in a list.
type listedInstance struct {
	tandem.Instance

	State    override.State     `json:"state"`
	Weight   int                `json:"weight"`             // in force; 0 if the instance gets no calls
	Override *override.Override `json:"override,omitempty"` // what withholds the instance
}

// rollout is how far clients have taken up what is set.
type rollout struct {
	Revision int      `json:"revision"`
	Applied  int      `json:"applied"` // clients
	Pending  int      `json:"pending"`
	Refused  int      `json:"refused"`
	Reasons  []string `json:"reasons,omitempty"` // why they refused it
}

// showInstances prints the list with what is set for it.
func showInstances(ctx context.Context, p *listing.Printer, target string, e *override.Editor) error {
	list, err := e.Instances(ctx)
	if err != nil {
		return err
	}
	o, err := e.Read(ctx)
	if err != nil {
		return fmt.Errorf("%w; clients go by what they read before; tandem instance restore TARGET REVISION replaces it", err)
	}
	value := instanceList{Target: registry.Redact(target), Instances: withOverrides(list, o, time.Now())}
	notes := []string(nil)
	if o.Change.Revision > 0 {
		r, err := e.Rollout(ctx)
		if err != nil {
			return err
		}
		value.Rollout, notes = rolloutOf(o.Change.Revision, &r), []string{"revision " + r.String()}
	}
	value.Set = o.Set
	for i := range o.Set {
		if s := &o.Set[i]; !slices.ContainsFunc(list, func(in tandem.Instance) bool { return s.Matches(&in) }) {
			notes = append(notes, describeOverride(s)+", which is not listed: "+s.String())
		}
	}
	out := instanceTable(value.Instances)
	out.Notes, out.Value = notes, value
	return p.Print(out)
}

// withOverrides returns the instances of a list with what overrides make of them.
func withOverrides(list []tandem.Instance, o *override.Overrides, now time.Time) []listedInstance {
	effect := o.Apply(list, now)
	listed := make([]listedInstance, len(list))
	for i, in := range list {
		l := listedInstance{Instance: in, State: override.Enabled}
		if tags, set := effect.Tags[in.ID]; set {
			l.Tags = tags
		}
		if set, withheld := effect.Withheld[in.ID]; withheld {
			l.State, l.Override = set.State, &set
		}
		if at := slices.IndexFunc(effect.Enabled, func(e tandem.Instance) bool { return e.ID == in.ID }); at >= 0 {
			l.Weight = cmp.Or(effect.Enabled[at].Weight, tandem.DefaultWeight)
		}
		listed[i] = l
	}
	return listed
}

func rolloutOf(revision int, r *policy.Rollout) *rollout {
	sum := &rollout{Revision: revision, Applied: len(r.Applied), Pending: len(r.Pending), Refused: len(r.Refused)}
	for _, a := range r.Refused {
		if !slices.Contains(sum.Reasons, a.Error) {
			sum.Reasons = append(sum.Reasons, a.Error)
		}
	}
	return sum
}

// instanceTable returns the instances as a table.
func instanceTable(list []listedInstance) *listing.List {
	table := &listing.List{Columns: []listing.Column{
		{Name: "INSTANCE"}, {Name: "STATE", State: true}, {Name: "WEIGHT"}, {Name: "VERSION"}, {Name: "ZONE"}, {Name: "ADDRESS"},
		{Name: "GROUP", Wide: true}, {Name: "TAGS", Wide: true}, {Name: "STARTED", Wide: true}, {Name: "WHY"},
	}}
	for i := range list {
		in := &list[i]
		weight, why, address := "", "", ""
		if in.Weight > 0 {
			weight = strconv.Itoa(in.Weight)
		}
		if in.Override != nil {
			why = strings.TrimPrefix(in.Override.String(), string(in.State)+" ")
		}
		if len(in.Endpoints) > 0 {
			address = in.Endpoints[0].String()
		}
		table.Rows = append(table.Rows, []string{
			in.ID, string(in.State), weight, in.Version, in.Zone, address, in.Group, pairs(in.Tags), stamp(in.Started), why,
		})
	}
	return table
}
