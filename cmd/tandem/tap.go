package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
)

// tapFlags are the flags of tandem tap.
type tapFlags struct {
	admin.TapRequest

	json   bool
	access accessFlags
}

func newTap(sh *shell) *cobra.Command {
	var f tapFlags
	cmd := &cobra.Command{
		Use:   "tap [flags] TARGET",
		Short: "watch calls as they end",
		Long: "It asks the admin API of all instances of the target for calls that match, at most --rate a second of\n" +
			"each. Metadata named like secrets is hidden. --payload needs the role administrator there.",
		Example: "tandem tap --method 'Cart.*' --failed etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
	}
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	set := cmd.Flags()
	set.StringVar(&f.Method, "method", "", "only methods that match, such as Cart.*")
	set.StringVar(&f.Client, "client", "", "calls that the instances make as this client, * for all, instead of those that they serve")
	set.StringVar(&f.Peer, "peer", "", "only of peers whose address begins so")
	set.BoolVar(&f.Failed, "failed", false, "only calls that failed")
	set.DurationVar(&f.AtLeast, "at-least", 0, "only calls that took so long")
	set.Float64Var(&f.Share, "share", 0, "a random share of the calls, from 0 to 1; 0 for all")
	set.IntVar(&f.Rate, "rate", 0, "most calls a second of each instance; 0 for 100")
	set.DurationVar(&f.For, "for", 0, "when to end; 0 for a minute, at most 10m")
	set.BoolVar(&f.Payload, "payload", false, "with the messages")
	set.BoolVar(&f.json, "json", false, "a line of JSON for each call")
	f.access.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.For < 0 || f.For > 10*time.Minute {
			return usagef("--for %v: want at most 10m", f.For)
		}
		at, err := f.access.place(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return interrupted(cmd.Context(), f.follow(cmd.Context(), sh, at))
	}
	return cmd
}

// follow prints the calls of all instances until their taps end.
func (f *tapFlags) follow(ctx context.Context, sh *shell, at *place) error {
	w, err := membersOf(ctx, at)
	if err != nil {
		return err
	}
	defer w.c.Close() //nolint:errcheck // the streams are over
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan string)
	errs := make([]error, len(w.instances))
	var wg sync.WaitGroup
	for i, id := range w.instances {
		wg.Go(func() { errs[i] = f.tap(ctx, w.c, id, lines) })
	}
	go func() {
		wg.Wait()
		close(lines)
	}()
	var broken error
	for line := range lines {
		if broken != nil {
			continue // the taps are ending
		}
		if _, broken = fmt.Fprintln(sh.out, line); broken != nil {
			cancel()
		}
	}
	lacks := func(err error) bool { return tandem.CodeOf(err) == tandem.NotFound }
	if slices.ContainsFunc(errs, func(err error) bool { return !lacks(err) }) {
		errs = slices.DeleteFunc(errs, lacks) // instances that do not have the client, where others do
	}
	return cmp.Or(broken, errors.Join(errs...))
}

// tap sends the calls of one instance to lines.
func (f *tapFlags) tap(ctx context.Context, c *client.Client, id string, lines chan<- string) error {
	s, err := c.OpenStream(ctx, admin.Service+".Tap", client.Instance(id), client.Timeout(time.Hour))
	if err != nil {
		return fmt.Errorf("%s: %w", id, withoutAdmin(err))
	}
	defer s.Close() //nolint:errcheck // it is over, or not wanted any more
	if err := s.SendMsg(f.TapRequest); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	for {
		e := new(admin.TapEvent)
		switch err := s.RecvMsg(e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", id, withoutAdmin(err))
		}
		line, err := f.line(id, e)
		if err != nil {
			return err
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *tapFlags) line(id string, e *admin.TapEvent) (string, error) {
	if f.json {
		text, err := json.Marshal(struct {
			Instance string `json:"instance"`
			*admin.TapEvent
		}{id, e})
		return string(text), err
	}
	at := e.Began.Local().Format("15:04:05.000") //nolint:gosmopolitan // people compare it with their clock
	parts := []string{at, id, e.Method, e.Code, took(e.Took), "from " + e.Peer}
	if e.Client != "" {
		parts[5] = "to " + e.Peer
	}
	for _, name := range slices.Sorted(maps.Keys(e.Metadata)) {
		parts = append(parts, name+"="+e.Metadata[name])
	}
	for _, message := range []json.RawMessage{e.Request, e.Reply} {
		if message != nil {
			parts = append(parts, string(message))
		}
	}
	if e.Error != "" && e.Code != tandem.OK.String() {
		parts = append(parts, "error: "+strings.ReplaceAll(e.Error, "\n", " "))
	}
	if e.Missed > 0 {
		parts = append(parts, fmt.Sprintf("(%d more were not shown)", e.Missed))
	}
	return strings.Join(parts, " "), nil
}
