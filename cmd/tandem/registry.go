package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

func newRegistry(sh *shell) *cobra.Command {
	return group("registry COMMAND", "show what a registry holds for a target, and log in there",
		newRegistryLs(sh), newRegistryGet(sh), newRegistryWatch(sh), newRegistryLogin(sh), newRegistryLogout(sh), newRegistryLogins(sh))
}

// documentFlag adds the flag that names documents besides those that belong to a target.
func documentFlag(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringArray("document", nil, "`key` of a further document, such as /shop/policies/orders; may be repeated")
}

// The kinds of documents.
const (
	kindOverrides = "overrides"
	kindPolicy    = "policy"
	kindHistory   = "history"
	kindOther     = "document" // neither of them, or invalid
)

// historyExt is what package history appends to the key of a document for that of its versions.
const historyExt = ".history"

// holdings is what a registry holds for a target.
type holdings struct {
	place    *place
	resolver registry.Resolver
	target   registry.Target
	// documents is nil for a registry that keeps none.
	documents registry.Documents
	overrides string // key of the overrides of the list
	without   string // why there are no documents, if documents is nil
}

// inHoldings runs f with what the registry of a target, or a context, holds.
func inHoldings(ctx context.Context, arg string, f func(context.Context, *holdings) error) error {
	target, err := targetOf(arg)
	if err != nil {
		return err
	}
	h, err := holdingsOf(&place{target: target})
	if err != nil {
		return err
	}
	if c, ok := h.resolver.(interface{ Close() error }); ok {
		defer func() { _ = c.Close() }() // an error of closing changes nothing here
	}
	return interrupted(ctx, f(ctx, h))
}

func holdingsOf(at *place) (*holdings, error) {
	h := &holdings{place: at, without: "this registry keeps no documents"}
	var err error
	if h.resolver, h.target, err = at.list(); err != nil {
		return nil, err
	}
	if c, ok := h.resolver.(registry.Checker); ok {
		if err := c.Check(h.target); err != nil {
			return nil, usagef("%v", err)
		}
	}
	if of, ok := h.resolver.(registry.DocumentFinder); ok {
		if d, key, err := of.DocumentsOf(h.target); err == nil {
			h.documents, h.overrides = d, key
		} else { // clients use such a list without overrides
			h.without = "there are no documents for this target: " + err.Error()
		}
	}
	return h, nil
}

// store returns a document with its history.
func (h *holdings) store(key string) (history.Store, error) {
	w, ok := h.documents.(registry.DocumentWriter)
	if !ok {
		return history.Store{}, errors.New(h.without)
	}
	return history.Store{Documents: w, Key: key}, nil
}

// heldDocument is a document of a registry. Its fields are documented in docs/reference/cli.md.
type heldDocument struct {
	Key      string `json:"key"`
	Kind     string `json:"kind"`
	Version  string `json:"version,omitempty"` // of a policy or of overrides: what clients report
	Revision int    `json:"revision,omitempty"`
	Versions int    `json:"versions,omitempty"` // of a history
	Size     int    `json:"size"`               // bytes
	// Error says why the document can't be read, or is not valid.
	Error   string           `json:"error,omitempty"`
	Reports []policy.Applied `json:"reports,omitempty"`

	text string
}

// classify fills in what a document's text says. Overrides and histories are known by their keys.
func (h *holdings) classify(d *heldDocument, text []byte) {
	d.text, d.Size, d.Kind = string(text), len(text), kindOther
	var change policy.Change
	var err error
	switch {
	case d.Key == h.overrides:
		var o *override.Overrides
		d.Kind, d.Version = kindOverrides, override.VersionOf(text)
		if o, err = override.Parse(text); err == nil {
			change = o.Change
		}
	case strings.HasSuffix(d.Key, historyExt):
		d.Kind = kindHistory
	default:
		var p *policy.Policy
		if p, err = policy.Parse(text); err == nil {
			d.Kind, d.Version = kindPolicy, policy.VersionOf(text)
			if p.Change != nil {
				change = *p.Change
			}
		}
	}
	d.Revision = change.Revision
	if err != nil {
		d.Error = err.Error()
	}
}

// read returns a document with its reports, nil if there is none.
func (h *holdings) read(ctx context.Context, key string) (*heldDocument, error) {
	s, err := h.store(key)
	if err != nil {
		return nil, err
	}
	text, err := s.Documents.ReadDocument(ctx, key)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	d := &heldDocument{Key: key}
	h.classify(d, text)
	if d.Kind == kindHistory {
		of := history.Store{Documents: s.Documents, Key: strings.TrimSuffix(key, historyExt)}
		kept, err := of.Versions(ctx)
		if err != nil {
			d.Error = err.Error()
		}
		d.Versions = len(kept)
		return d, nil
	}
	if of, ok := policy.FromRegistry(h.documents, key).(policy.Reports); ok {
		if d.Reports, err = of.Applied(ctx); err != nil {
			d.Error = strings.TrimPrefix(d.Error+"; reports: "+err.Error(), "; ")
		}
	}
	return d, nil
}

// all returns the documents that belong to a target, those of further keys, and their histories.
func (h *holdings) all(ctx context.Context, further []string) ([]heldDocument, error) {
	if h.documents == nil {
		if len(further) > 0 {
			return nil, usagef("--document: %s", h.without)
		}
		return nil, nil
	}
	var list []heldDocument
	for i, key := range h.keys(further) {
		d, err := h.read(ctx, key)
		own := i == 1 // the path of the target, which may be a list and no document
		switch {
		case err != nil && !own:
			list = append(list, heldDocument{Key: key, Kind: kindOther, Error: err.Error()})
		case d != nil && (!own || d.Kind != kindOther):
			list = append(list, *d)
		case d == nil && i > 1:
			list = append(list, heldDocument{Key: key, Kind: kindOther, Error: registry.ErrNoDocument.Error()})
		}
		if d, err := h.read(ctx, key+historyExt); err == nil && d != nil && d.Versions > 0 {
			list = append(list, *d)
		}
		if ctx.Err() != nil {
			return list, ctx.Err()
		}
	}
	return list, nil
}

// keys returns the keys of the documents of a target, the overrides first and then its path, and
// further ones.
func (h *holdings) keys(further []string) []string {
	return append([]string{h.overrides, h.target.Path}, further...)
}

// overridesIn returns the overrides in a list of documents. Invalid ones override nothing here;
// their document says so.
func overridesIn(documents []heldDocument) *override.Overrides {
	for i := range documents {
		if documents[i].Kind == kindOverrides {
			if o, err := override.Parse([]byte(documents[i].text)); err == nil {
				return o
			}
		}
	}
	return new(override.Overrides)
}

// list returns the instances of the target.
func (h *holdings) list(ctx context.Context) ([]tandem.Instance, error) {
	list, err := registry.List(ctx, h.resolver, h.target)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s: the registry has not answered in time: %w", registry.Redact(h.place.target), err)
	}
	return list, err
}
