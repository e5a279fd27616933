package registrytest

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/tandem-rpc/tandem/registry"
)

// inDirectory checks that a Directory finds the list with an instance, from its own path and from
// the one above it, and nothing that is no list.
func inDirectory(s *session) {
	s.register(instance("a"))
	if s.watch().sees("a"); s.err != nil {
		return
	}
	d, _ := s.h.Resolver.(registry.Directory) // Missing has checked it
	own := s.h.Target
	s.listed(d, own, own)
	above := own
	if above.Path = path.Dir(own.Path); above.Path != own.Path && above.Path != "/" && above.Path != "." {
		s.listed(d, above, own)
	}
	finder, ok := s.h.Resolver.(registry.DocumentFinder)
	if !ok {
		return
	}
	documents, key, err := finder.DocumentsOf(own)
	if err != nil {
		s.failf("the documents of the list: %w", err)
		return
	}
	text := []byte(`{"id":"document","endpoints":[{"transport":"tcp","address":"h:1"}]}`)
	s.attempt("writing the document of the list", func(ctx context.Context) error { return s.write(ctx, documents, key, nil, text) })
	s.listed(d, own, own)
	s.attempt("deleting the document of the list", func(ctx context.Context) error { return s.write(ctx, documents, key, text, nil) })
}

// listed checks that the lists at a target are the one that is given, or that there is one below
// it, which may have another path there.
func (s *session) listed(d registry.Directory, below, want registry.Target) {
	s.attempt("the lists below "+below.String(), func(ctx context.Context) error {
		lists, err := d.Lists(ctx, below)
		if err != nil {
			return err
		}
		var found []string
		for _, t := range lists {
			found = append(found, t.String())
		}
		if below.Path == want.Path && !slices.Equal(found, []string{want.String()}) || len(found) == 0 {
			return fmt.Errorf("there are %q, want %q", found, want)
		}
		return nil
	})
}
