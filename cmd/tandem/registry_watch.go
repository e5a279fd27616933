package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/registry"
)

func newRegistryWatch(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [flags] TARGET",
		Short: "print changes of instances and documents until it is interrupted",
		Long: "First there is a line for each instance and document that is there. With -o json each change is a\n" +
			"line of JSON. A registry that fails is a change, too.",
		Example: "tandem registry watch etcd://h1:2379/shop/Cart",
		Args:    wantArgs(1, 1),
	}
	p := outputFlag(sh, cmd)
	p.Stream = true
	further := documentFlag(cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return inHoldings(cmd.Context(), args[0], func(ctx context.Context, h *holdings) error {
			if h.documents == nil && len(*further) > 0 {
				return usagef("--document: %s keeps no documents", registry.Redact(h.place.target))
			}
			return h.watch(ctx, p, *further)
		})
	}
	return cmd
}

// heldChange is what tandem registry watch prints. Its fields are documented in docs/reference/cli.md.
type heldChange struct {
	At       time.Time        `json:"at"`
	Change   string           `json:"change"` // listed, changed, gone; written, deleted; failed, ok
	Kind     string           `json:"kind"`   // instance, registry, or a kind of documents
	Name     string           `json:"name"`
	Detail   string           `json:"detail,omitempty"`
	Instance *tandem.Instance `json:"instance,omitempty"`
	Document *heldDocument    `json:"document,omitempty"`
}

// watch prints changes until ctx ends.
func (h *holdings) watch(ctx context.Context, p *listing.Printer, further []string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex // the printer's
	show := func(changes []heldChange) {
		mu.Lock()
		defer mu.Unlock()
		for i := range changes {
			if err := p.Print(changeLine(&changes[i])); err != nil {
				stop(err) // the reader of our output is gone
				return
			}
		}
	}
	var watchers sync.WaitGroup
	if h.documents != nil {
		for _, key := range h.keys(further) {
			w := &documentWatch{holdings: h, key: key, own: key == h.target.Path}
			watchers.Go(func() {
				err := h.documents.WatchDocument(ctx, key, func(text []byte, err error) { show(w.update(text, err, time.Now())) })
				if ctx.Err() == nil && !w.own {
					stop(err)
				}
			})
		}
	}
	w := &instanceWatch{name: registry.Redact(h.place.target)}
	err := h.resolver.Watch(ctx, h.target, func(s registry.Snapshot) { show(w.update(&s, time.Now())) })
	cause := context.Cause(ctx)
	stop(err)
	watchers.Wait()
	return cmp.Or(cause, err)
}

func changeLine(c *heldChange) *listing.List {
	return &listing.List{
		Columns: []listing.Column{{Name: "TIME"}, {Name: "CHANGE", State: true}, {Name: "KIND"}, {Name: "NAME"}, {Name: "WHAT"}},
		Rows:    [][]string{{stamp(c.At), c.Change, c.Kind, c.Name, c.Detail}},
		Value:   c,
	}
}

// instanceWatch makes changes of lists.
type instanceWatch struct {
	name    string // of the target
	last    map[string]tandem.Instance
	failure string
}

// update returns how a list differs from the one before.
func (w *instanceWatch) update(s *registry.Snapshot, now time.Time) []heldChange {
	now = now.UTC().Truncate(time.Millisecond)
	if s.Err != nil {
		if w.failure == s.Err.Error() {
			return nil
		}
		w.failure = s.Err.Error()
		return []heldChange{{At: now, Change: "failed", Kind: "registry", Name: w.name, Detail: w.failure}}
	}
	var changes []heldChange
	if w.failure != "" {
		w.failure = ""
		changes = append(changes, heldChange{At: now, Change: "ok", Kind: "registry", Name: w.name})
	}
	add := func(change string, in tandem.Instance, detail string) {
		changes = append(changes, heldChange{At: now, Change: change, Kind: "instance", Name: in.ID, Detail: detail, Instance: &in})
	}
	gone := maps.Clone(w.last)
	w.last = make(map[string]tandem.Instance, len(s.Instances))
	for i := range s.Instances {
		in := s.Instances[i].Clone()
		before, known := gone[in.ID]
		w.last[in.ID] = in
		delete(gone, in.ID)
		before.Load = in.Load // load that is reported is no change
		switch {
		case !known:
			add("listed", in, strings.Join(addressesOf(&in), ","))
		case !reflect.DeepEqual(before, in):
			add("changed", in, differences(&before, &in))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		add("gone", gone[id], "")
	}
	return changes
}

func addressesOf(in *tandem.Instance) []string {
	var addresses []string
	for _, e := range in.Endpoints {
		addresses = append(addresses, e.String())
	}
	return addresses
}

// differences returns the fields of an instance that have changed, as "zone: a, was b".
func differences(before, now *tandem.Instance) string {
	old, updated := fieldsOf(before), fieldsOf(now)
	names := maps.Clone(old)
	maps.Copy(names, updated)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := string(old[name]), string(updated[name]); was != is {
			list = append(list, fmt.Sprintf("%s: %s, was %s", name, cmp.Or(is, "none"), cmp.Or(was, "none")))
		}
	}
	return strings.Join(list, "; ")
}

// fieldsOf returns the fields of an instance as JSON.
func fieldsOf(in *tandem.Instance) map[string]json.RawMessage {
	text, err := json.Marshal(in)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return nil
	}
	return fields
}

// documentWatch makes changes of one document.
type documentWatch struct {
	holdings *holdings
	key      string
	own      bool // it is at the target's path, where a list may be in its place
	there    *heldDocument
	failure  string
}

// update returns what has changed.
func (w *documentWatch) update(text []byte, err error, now time.Time) []heldChange {
	now = now.UTC().Truncate(time.Millisecond)
	if err != nil {
		return w.unread(err, now)
	}
	d := &heldDocument{Key: w.key}
	w.holdings.classify(d, text)
	recovered := w.failure != ""
	w.failure = ""
	same := w.there != nil && w.there.text == d.text
	switch {
	case w.own && d.Kind == kindOther, same && !recovered:
		return nil
	case same:
		return []heldChange{{At: now, Change: "ok", Kind: d.Kind, Name: w.key, Document: d}}
	}
	w.there = d
	detail := fmt.Sprintf("version %s, %d bytes", cmp.Or(d.Version, "unknown"), d.Size)
	if d.Error != "" {
		detail += ", invalid: " + d.Error
	}
	return []heldChange{{At: now, Change: "written", Kind: d.Kind, Name: w.key, Detail: detail, Document: d}}
}

// unread returns what has changed when there is no document, or it can't be read.
func (w *documentWatch) unread(err error, now time.Time) []heldChange {
	before, failure := w.there, w.failure
	if errors.Is(err, registry.ErrNoDocument) {
		w.there, w.failure = nil, ""
		if before == nil {
			return nil
		}
		return []heldChange{{At: now, Change: "deleted", Kind: before.Kind, Name: w.key}}
	}
	if w.own && before == nil || failure == err.Error() {
		return nil
	}
	w.failure = err.Error()
	return []heldChange{{At: now, Change: "failed", Kind: kindOther, Name: w.key, Detail: w.failure}}
}
