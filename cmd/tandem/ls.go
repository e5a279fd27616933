package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/registry"
)

// listTimeout bounds one look at a registry.
const listTimeout = 10 * time.Second

func newLs(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [flags] TARGET",
		Short: "list the instances of a target, with their services",
		Long: "With -w it goes on until it is interrupted: a line for each change in tables, and the whole list\n" +
			"on a line for each change with -o json.\n" +
			"With --lists it lists the lists at the target's path and below it, which need not be a list itself.",
		Example: "tandem ls -w etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	watch := cmd.Flags().BoolP("watch", "w", false, "follow changes")
	lists := cmd.Flags().Bool("lists", false, "list the lists at the target and below it, with their numbers of instances")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		target, err := targetOf(args[0])
		if err != nil {
			return err
		}
		at := &place{target: target}
		switch {
		case *watch && *lists:
			return usagef("--lists can't be followed: leave out --watch")
		case *watch:
			return watchList(cmd.Context(), sh, p, at)
		case *lists:
			return printLists(cmd.Context(), p, at)
		}
		return printList(cmd.Context(), p, at)
	}
	return cmd
}

// targetList is what tandem ls prints. Its fields are documented in docs/reference/cli.md.
type targetList struct {
	Target    string            `json:"target"`
	At        time.Time         `json:"at"` // when the list was read
	Instances []tandem.Instance `json:"instances"`
	Services  []string          `json:"services"` // of all instances; empty if the registry does not know them
}

func printList(ctx context.Context, p *listing.Printer, at *place) error {
	list, err := at.instances(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	out := &listing.List{Columns: append([]listing.Column{{Name: "INSTANCE"}}, lsColumns()...), Value: listOf(at.target, list, time.Now())}
	for i := range list {
		out.Rows = append(out.Rows, append([]string{list[i].ID}, lsCells(&list[i])...))
	}
	if r, _, err := at.list(); err == nil {
		out.Notes = noteEmpty(r, len(list))
	}
	return p.Print(out)
}

// instances returns the list of a place as it is now.
func (p *place) instances(ctx context.Context) ([]tandem.Instance, error) {
	r, t, err := p.list()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return registry.List(ctx, r, t)
}

func listOf(target string, list []tandem.Instance, now time.Time) *targetList {
	l := &targetList{registry.Redact(target), now.UTC().Truncate(time.Millisecond), append([]tandem.Instance{}, list...), []string{}}
	for _, in := range list {
		l.Services = append(l.Services, in.Services...)
	}
	slices.Sort(l.Services)
	l.Services = slices.Compact(l.Services)
	return l
}

func lsColumns() []listing.Column {
	return []listing.Column{
		{Name: "ADDRESS"}, {Name: "VERSION"}, {Name: "ZONE"}, {Name: "WEIGHT", Wide: true}, {Name: "GROUP", Wide: true},
		{Name: "TAGS", Wide: true}, {Name: "STARTED", Wide: true}, {Name: "CALLS/S", Wide: true}, {Name: "SERVICES"},
	}
}

func lsCells(in *tandem.Instance) []string {
	var addresses []string
	for _, e := range in.Endpoints {
		addresses = append(addresses, e.String())
	}
	weight, rate := "", ""
	if in.Weight > 0 {
		weight = strconv.Itoa(in.Weight)
	}
	if in.Load != nil {
		rate = fmt.Sprintf("%.1f", in.Load.Rate)
	}
	return []string{
		strings.Join(addresses, ","), in.Version, in.Zone, weight, in.Group, pairs(in.Tags), stamp(in.Started), rate, strings.Join(in.Services, ","),
	}
}

// watchList prints a list and its changes until ctx ends.
func watchList(ctx context.Context, sh *shell, p *listing.Printer, at *place) error {
	r, t, err := at.list()
	if err != nil {
		return err
	}
	p.Stream = true
	w := &watched{printer: p, target: at.target}
	within, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	err = r.Watch(within, t, func(s registry.Snapshot) {
		if s.Err != nil {
			fmt.Fprintln(sh.err, "tandem:", s.Err)
			return
		}
		if failed = w.update(s.Instances, time.Now()); failed != nil {
			stop() // the reader of our output is gone
		}
	})
	if failed != nil {
		return failed
	}
	return interrupted(ctx, err)
}

// watched prints the changes of a list.
type watched struct {
	printer *listing.Printer
	target  string
	last    map[string]tandem.Instance
}

func (w *watched) update(list []tandem.Instance, now time.Time) error {
	out := &listing.List{
		Columns: append([]listing.Column{{Name: "TIME"}, {Name: "CHANGE", State: true}, {Name: "INSTANCE"}}, lsColumns()...),
		Value:   listOf(w.target, list, now),
	}
	row := func(change string, in *tandem.Instance) {
		out.Rows = append(out.Rows, append([]string{stamp(now), change, in.ID}, lsCells(in)...))
	}
	gone := maps.Clone(w.last)
	w.last = make(map[string]tandem.Instance)
	for i := range list {
		in := &list[i]
		w.last[in.ID] = in.Clone()
		before, known := gone[in.ID]
		delete(gone, in.ID)
		before.Load = in.Load // load that is reported is no change
		switch {
		case !known:
			row("listed", in)
		case !reflect.DeepEqual(before, *in):
			row("changed", in)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		row("gone", new(gone[id]))
	}
	return w.printer.Print(out)
}
