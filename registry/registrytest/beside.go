package registrytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// beside checks that the document of a list, and the reports on it, are beside the list: no
// watch takes them for instances, although both are the text of one.
func beside(s *session) {
	w := s.watch()
	s.register(instance("a"))
	w.sees("a")
	d, key := s.documents()
	if s.err != nil {
		return
	}
	text, err := json.Marshal(instance("document"))
	if err != nil {
		s.failf("%w", err)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, 4*s.h.within())
	defer cancel()
	r := read(ctx, DocumentHarness{Documents: d, Key: key, Within: s.h.within()})
	err = steps(
		func() error { return s.write(ctx, d, key, nil, text) },
		func() error { return r.wantText(string(text)) },
		func() error { return s.shared(ctx, key, text) },
		func() error { return reported(ctx, d, key, text) },
	)
	if err != nil {
		s.failf("document %s: %w", key, err)
	}
	s.register(instance("b"))
	w.sees("a", "b")
	s.watch().sees("a", "b")
	for _, snap := range w.lists() {
		if got := names(snap); got != quoted(nil) && got != quoted([]string{"a"}) && got != quoted([]string{"a", "b"}) {
			s.failf("after its document was written, the list is %s", got)
		}
	}
	if w.failed.Load() {
		s.failf("after its document was written, a watch of the list fails")
	}
	if err := errors.Join(s.write(ctx, d, key, text, nil), r.end()); err != nil {
		s.failf("document %s: %w", key, err)
	}
}

// documents returns the documents of the resolver, and the key of the list's document. It
// checks that other targets of the list have the same key.
func (s *session) documents() (registry.Documents, string) {
	finder, _ := s.h.Resolver.(registry.DocumentFinder) // Missing has checked it
	d, key, err := finder.DocumentsOf(s.h.Target)
	if err != nil {
		s.failf("the documents of the list: %w", err)
		return nil, ""
	}
	if _, ok := d.(registry.DocumentWriter); !ok {
		s.failf("the documents of the list are no DocumentWriter: %T", d)
	}
	s.sameKey(finder, key, s.h.Aliases...)
	if own, ok := s.h.Registrar.(registry.DocumentFinder); ok {
		s.sameKey(own, key, s.h.Target, registry.Target{})
	}
	return d, key
}

func (s *session) sameKey(finder registry.DocumentFinder, key string, targets ...registry.Target) {
	for _, target := range targets {
		if _, got, err := finder.DocumentsOf(target); err != nil || got != key {
			s.failf("the document of the same list as %s is %q, %w; want %q", target, got, err, key)
		}
	}
}

// write swaps the document, or writes it without the registry under test.
func (s *session) write(ctx context.Context, d registry.Documents, key string, old, text []byte) error {
	if s.h.PutDocument != nil {
		return s.h.PutDocument(key, text)
	}
	w, ok := d.(registry.DocumentWriter)
	if !ok {
		return fmt.Errorf("%T is no DocumentWriter", d)
	}
	return w.SwapDocument(ctx, key, old, text)
}

// shared checks that the registrar reads the same document.
func (s *session) shared(ctx context.Context, key string, text []byte) error {
	w, ok := s.h.Registrar.(registry.DocumentWriter)
	if !ok {
		return nil
	}
	if got, err := w.ReadDocument(ctx, key); err != nil || !bytes.Equal(got, text) {
		return fmt.Errorf("the registrar reads %.100q, %w", got, err)
	}
	return nil
}

// reported puts a report on the document and reads it.
func reported(ctx context.Context, d registry.Documents, key string, text []byte) error {
	const life = 10 * time.Second
	if err := d.PutReport(ctx, key, "reporter", text, life); err != nil {
		return err
	}
	if all, err := d.Reports(ctx, key); err != nil || len(all) != 1 || !bytes.Equal(all["reporter"], text) {
		return fmt.Errorf("there are %d reports, of the reporter %.100q, %w", len(all), all["reporter"], err)
	}
	return nil
}
