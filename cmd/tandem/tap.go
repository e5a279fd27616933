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

// follow prints the calls of all instances, also of those that are listed later, until their taps end.
func (f *tapFlags) follow(ctx context.Context, sh *shell, at *place) error {
	w, err := membersOf(ctx, at)
	if err != nil {
		return err
	}
	defer w.c.Close() //nolint:errcheck // the streams are over

	// The servers end the taps before that.
	within, cancel := context.WithTimeout(ctx, cmp.Or(f.For, usualTap)+askTime)
	t := &taps{
		flags: f, w: w, lines: make(chan string), ends: make(chan tapEnd),
		running: map[string]bool{}, lasted: map[string]bool{}, over: map[string]error{},
	}
	defer t.wait.Wait()
	defer cancel()
	return cmp.Or(t.print(within, sh), ctx.Err(), t.err())
}

// usualTap is how long a tap lasts by default.
const usualTap = time.Minute

// taps are the taps of a target's instances.
type taps struct {
	flags *tapFlags
	w     *members
	lines chan string
	ends  chan tapEnd
	wait  sync.WaitGroup

	running map[string]bool  // by ID
	lasted  map[string]bool  // those that have run for a while: they are begun again when they break
	over    map[string]error // why the taps ended that are not begun again; nil where their time was over
}

// tapEnd is the end of an instance's tap.
type tapEnd struct {
	id     string
	lasted bool
	err    error
}

// begin begins the taps of the instances that are listed and have none.
func (t *taps) begin(ctx context.Context) {
	for _, id := range t.w.ids() {
		if _, over := t.over[id]; over || t.running[id] {
			continue
		}
		t.running[id] = true
		t.wait.Go(func() {
			began := time.Now()
			err := t.flags.tap(ctx, t.w.c, id, t.lines)
			select {
			case t.ends <- tapEnd{id, time.Since(began) >= time.Second, err}:
			case <-ctx.Done():
			}
		})
	}
}

// ended notes the end of a tap.
func (t *taps) ended(sh *shell, e tapEnd) {
	delete(t.running, e.id)
	if e.lasted {
		t.lasted[e.id] = true
	}
	switch {
	case e.err == nil || tandem.CodeOf(e.err) != tandem.Unavailable || !t.lasted[e.id]:
		t.over[e.id] = e.err
	case e.lasted:
		fmt.Fprintln(sh.err, "lost, and asked again:", e.err)
	}
}

// print prints the calls until all taps are over, or ctx ends.
func (t *taps) print(ctx context.Context, sh *shell) error {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	t.begin(ctx)
	for t.left() {
		select {
		case line := <-t.lines:
			if _, err := fmt.Fprintln(sh.out, line); err != nil {
				return err
			}
		case e := <-t.ends:
			t.ended(sh, e)
		case <-again.C:
			t.begin(ctx)
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// left reports whether there are taps that run, or are begun again.
func (t *taps) left() bool {
	for id := range t.lasted {
		if _, over := t.over[id]; !over {
			return true
		}
	}
	return len(t.running) > 0
}

// err returns why taps are over. Instances that do not have the client do not matter where others do.
func (t *taps) err() error {
	errs := slices.Collect(maps.Values(t.over))
	lacks := func(err error) bool { return tandem.CodeOf(err) == tandem.NotFound }
	if slices.ContainsFunc(errs, func(err error) bool { return !lacks(err) }) {
		errs = slices.DeleteFunc(errs, lacks)
	}
	return errors.Join(errs...)
}

// tap sends the calls of one instance to lines.
func (f *tapFlags) tap(ctx context.Context, c *client.Client, id string, lines chan<- string) error {
	s, err := c.OpenStream(ctx, admin.Service+".Tap", client.Instance(id), client.Timeout(time.Hour))
	if err != nil {
		return fmt.Errorf("%s: %w", id, withoutAdmin(err))
	}
	defer s.Close() //nolint:errcheck // it is over, or not wanted any more
	req := f.TapRequest
	if until, ok := ctx.Deadline(); ok {
		req.For = max(time.Until(until)-askTime, time.Millisecond)
	}
	if err := s.SendMsg(req); err != nil {
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
