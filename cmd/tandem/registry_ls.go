package main

import (
	"cmp"
	"context"
	"fmt"
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

func newRegistryLs(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [flags] TARGET",
		Short: "list instances, as they are listed and as clients see them, and documents",
		Long: "The documents are the overrides of the list, the one at the target's path, if it is a policy, those\n" +
			"of --document, and their histories. VERSION is what clients report.",
		Example: "tandem registry ls -o wide --document /shop/policies/orders etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
	}
	p := outputFlag(sh, cmd)
	further := documentFlag(cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return inHoldings(cmd.Context(), args[0], func(ctx context.Context, h *holdings) error {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			return h.print(ctx, p, *further)
		})
	}
	return cmd
}

// heldList is what tandem registry ls prints. Its fields are documented in docs/reference/cli.md.
type heldList struct {
	Target    string         `json:"target"`
	At        time.Time      `json:"at"`
	Instances []heldInstance `json:"instances"`
	Documents []heldDocument `json:"documents"`
}

// heldInstance is an instance as the registry lists it, and as clients see it.
type heldInstance struct {
	Listed tandem.Instance `json:"listed"`
	Seen   seenInstance    `json:"seen"`
}

// seenInstance is what overrides make of an instance.
type seenInstance struct {
	State    override.State     `json:"state"`
	Weight   int                `json:"weight"` // 0 if it gets no calls
	Override *override.Override `json:"override,omitempty"`
}

func heldInstances(list []tandem.Instance, o *override.Overrides, now time.Time) []heldInstance {
	held := make([]heldInstance, len(list))
	for i, in := range withOverrides(list, o, now) {
		held[i] = heldInstance{list[i], seenInstance{in.State, in.Weight, in.Override}}
	}
	return held
}

func (h *holdings) print(ctx context.Context, p *listing.Printer, further []string) error {
	instances, err := h.list(ctx)
	if err != nil {
		return err
	}
	documents, err := h.all(ctx, further)
	if err != nil {
		return err
	}
	now := time.Now()
	value := heldList{
		Target: registry.Redact(h.place.target), At: now.UTC().Truncate(time.Millisecond),
		Instances: heldInstances(instances, overridesIn(documents), now),
		Documents: append([]heldDocument{}, documents...),
	}
	first := heldTable(value.Instances)
	first.Value, first.Notes = value, noteEmpty(h.resolver, len(instances))
	if err := p.Print(first); err != nil || p.Format == listing.JSON || p.Format == listing.YAML {
		return err
	}
	second := documentTable(documents)
	if h.documents == nil {
		second = &listing.List{Notes: []string{h.without}}
	}
	if _, err := fmt.Fprintln(p.Out); err != nil {
		return err
	}
	return p.Print(second)
}

// heldTable returns the instances as a table. WEIGHT is the one in force, LISTED that of the list.
func heldTable(list []heldInstance) *listing.List {
	table := &listing.List{Columns: []listing.Column{
		{Name: "INSTANCE"}, {Name: "SEEN", State: true}, {Name: "WEIGHT"}, {Name: "LISTED"}, {Name: "ADDRESS"}, {Name: "PROTOCOLS", Wide: true},
		{Name: "VERSION"}, {Name: "ZONE"}, {Name: "GROUP", Wide: true}, {Name: "TAGS", Wide: true}, {Name: "STARTED", Wide: true},
		{Name: "INCARNATION", Wide: true}, {Name: "POSITION", Wide: true}, {Name: "LOAD", Wide: true}, {Name: "SERVICES", Wide: true},
	}}
	for i := range list {
		in, seen := &list[i].Listed, &list[i].Seen
		var addresses, protocols []string
		for _, e := range in.Endpoints {
			addresses = append(addresses, e.String())
			protocols = append(protocols, cmp.Or(e.Protocol, "tandem"))
		}
		table.Rows = append(table.Rows, []string{
			in.ID, string(seen.State), orNone(seen.Weight), orNone(in.Weight), strings.Join(addresses, ","), strings.Join(protocols, ","),
			in.Version, in.Zone, in.Group, pairs(in.Tags), stamp(in.Started),
			in.Incarnation, positionText(in.Position), loadText(in.Load), strings.Join(in.Services, ","),
		})
	}
	return table
}

// orNone returns a number, "" for 0.
func orNone(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func positionText(p *tandem.Position) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%.4f,%.4f", p.Latitude, p.Longitude)
}

func loadText(l *tandem.Load) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%.1f/s, %d in flight, %d queued, at %s", l.Rate, l.InFlight, l.Queued, stamp(l.At))
}

func documentTable(list []heldDocument) *listing.List {
	table := &listing.List{Columns: []listing.Column{
		{Name: "DOCUMENT"}, {Name: "KIND"}, {Name: "VERSION"}, {Name: "REVISION"}, {Name: "BYTES"}, {Name: "CLIENTS AND PROBLEMS"},
	}}
	for i := range list {
		d := &list[i]
		table.Rows = append(table.Rows, []string{d.Key, d.Kind, d.Version, orNone(d.Revision), strconv.Itoa(d.Size), d.note()})
	}
	return table
}

// note says which clients follow a document, and what is wrong with it.
func (d *heldDocument) note() string {
	var parts []string
	if d.Versions > 0 {
		parts = append(parts, fmt.Sprintf("%d versions", d.Versions))
	}
	if len(d.Reports) > 0 {
		r := policy.RolloutOf(d.Version, d.Reports)
		parts = append(parts, fmt.Sprintf("applied by %d of %d, %d refused", len(r.Applied), r.Clients(), len(r.Refused)))
	}
	if d.Error != "" {
		parts = append(parts, "invalid: "+d.Error)
	}
	return strings.Join(parts, "; ")
}
