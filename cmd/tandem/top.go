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
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

// topFlags are the flags of tandem top.
type topFlags struct {
	every, window time.Duration
	times         int
	client        string
	access        accessFlags
}

func newTop(sh *shell) *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top [flags] TARGET",
		Short: "follow the rates, errors and times of methods",
		Long: "It asks the admin API of all instances of the target, adds up what they say, and sorts methods by\n" +
			"rate. On a terminal the table is drawn again and again; elsewhere each is printed below the one before.",
		Example: "tandem top etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	set := cmd.Flags()
	set.DurationVar(&f.every, "every", 2*time.Second, "time between two tables")
	set.DurationVar(&f.window, "window", 10*time.Second, "time that the figures are of: 10s to 5m")
	set.IntVarP(&f.times, "times", "n", 0, "end after this many tables; 0 for never")
	set.StringVar(&f.client, "client", "", "show calls that the instances make as this client, instead of those that they serve")
	f.access.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.every < 100*time.Millisecond {
			return usagef("--every %v: want at least 100ms", f.every)
		}
		if f.window < 10*time.Second || f.window > 5*time.Minute {
			return usagef("--window %v: want 10s to 5m", f.window)
		}
		if f.times < 0 {
			return usagef("--times %d: want 0 or more", f.times)
		}
		at, err := f.access.place(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return interrupted(cmd.Context(), f.follow(cmd.Context(), sh, p, at))
	}
	return cmd
}

func (f *topFlags) follow(ctx context.Context, sh *shell, p *listing.Printer, at *place) error {
	w, err := membersOf(ctx, at)
	if err != nil {
		return err
	}
	defer w.c.Close() //nolint:errcheck // nothing is in flight
	redraw := isTerminal(sh.out) && p.Format == listing.Table
	for n := 1; ; n++ {
		figures, silent, err := w.figures(ctx, admin.MethodsRequest{Window: f.window, Client: f.client, Times: true})
		if ctx.Err() != nil {
			return ctx.Err() // what came before it is a part of the figures
		}
		if err != nil && n > 1 && tandem.CodeOf(err) == tandem.Unavailable { // they may come back, or others
			fmt.Fprintln(sh.err, "no instance answers:", err)
			if err := pause(ctx, f.every); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if redraw {
			fmt.Fprint(sh.out, "\x1b[H\x1b[2J") // to the top left, and clear
		}
		if err := p.Print(topList(figures)); err != nil {
			return err
		}
		if silent != nil {
			fmt.Fprintln(sh.err, "some instances do not answer:", silent)
		}
		if n == f.times {
			return nil
		}
		if err := pause(ctx, f.every); err != nil {
			return err
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// topList returns figures as a list, the method with most calls first.
func topList(figures []admin.MethodFigure) *listing.List {
	figures = slices.DeleteFunc(figures, func(f admin.MethodFigure) bool { return strings.HasPrefix(f.Method, admin.Service+".") })
	slices.SortStableFunc(figures, func(a, b admin.MethodFigure) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), strings.Compare(a.Method, b.Method))
	})
	out := &listing.List{
		Columns: []listing.Column{
			{Name: "METHOD"}, {Name: "CALLS/S"}, {Name: "ERRORS/S"}, {Name: "P50"}, {Name: "P90"}, {Name: "P99"}, {Name: "P99.9", Wide: true}, {Name: "RUNNING"}, {Name: "CALLS", Wide: true},
		},
		Value: figures,
	}
	for i := range figures {
		f := &figures[i]
		f.Times = nil // for adding up only
		out.Rows = append(out.Rows, []string{
			f.Method, rate(f.Rate), rate(f.ErrorRate), took(f.P50), took(f.P90), took(f.P99), took(f.P999), strconv.FormatUint(f.Running, 10), strconv.FormatUint(f.Calls, 10),
		})
	}
	return out
}

func rate(r float64) string { return strconv.FormatFloat(r, 'f', 1, 64) }

// took returns a time with three digits.
func took(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
