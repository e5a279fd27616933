package registrytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// swapper writes the document of a harness.
type swapper struct {
	h DocumentHarness
	w registry.DocumentWriter
	r *reading
}

// documentWriter checks a registry that is a [registry.DocumentWriter], too.
func documentWriter(ctx context.Context, h DocumentHarness) error {
	w, ok := h.Documents.(registry.DocumentWriter)
	if !ok {
		return nil
	}
	r := read(ctx, h)
	s := &swapper{h, w, r}
	return errors.Join(steps(
		func() error { return s.clear(ctx) },
		func() error { return s.swaps(ctx) },
		func() error { return s.bounds(ctx) },
	), r.end())
}

// clear deletes the document.
func (s *swapper) clear(ctx context.Context) error {
	text, err := s.w.ReadDocument(ctx, s.h.Key)
	if err == nil {
		err = s.w.SwapDocument(ctx, s.h.Key, text, nil)
	}
	if err != nil {
		return fmt.Errorf("deleting the document: %w", err)
	}
	return s.none()
}

func (s *swapper) none() error {
	return s.r.want("that there is none", func(d delivery) bool { return errors.Is(d.err, registry.ErrNoDocument) })
}

// swap returns a step that replaces old by text, and waits until the watch sees it.
func (s *swapper) swap(ctx context.Context, old, text string) func() error {
	return func() error {
		if err := s.w.SwapDocument(ctx, s.h.Key, []byte(old), []byte(text)); err != nil {
			return fmt.Errorf("a swap of %.50q by %.50q: %w", old, text, err)
		}
		if err := s.holds(ctx, text); err != nil {
			return fmt.Errorf("after a swap of %.50q by %.50q: %w", old, text, err)
		}
		switch text {
		case old:
			return nil // it is not delivered again
		case "":
			return s.none()
		}
		return s.r.wantText(text)
	}
}

// refused returns a step that tries to replace old by text, while the document is holds.
func (s *swapper) refused(ctx context.Context, holds, old, text string) func() error {
	return func() error {
		what := fmt.Sprintf("a swap of %.50q by %.50q while the document is %.50q", old, text, holds)
		err := s.w.SwapDocument(ctx, s.h.Key, []byte(old), []byte(text))
		if !errors.Is(err, registry.ErrChanged) {
			return errors.Join(fmt.Errorf("%s does not return ErrChanged", what), err)
		}
		if err := s.named(err); err != nil {
			return err
		}
		if err := s.holds(ctx, holds); err != nil {
			return fmt.Errorf("after %s: %w", what, err)
		}
		return nil
	}
}

// holds checks that ReadDocument returns the text. The time for that is bounded, because
// some registries confirm a write before every server can read it.
func (s *swapper) holds(ctx context.Context, text string) error {
	for end := time.Now().Add(s.h.Within); ; time.Sleep(s.h.Within / 200) { // polls a condition
		got, err := s.w.ReadDocument(ctx, s.h.Key)
		switch {
		case err != nil:
			return err
		case text == "" && got != nil && time.Now().After(end):
			return fmt.Errorf("ReadDocument returns %.50q, want nil", got)
		case time.Now().After(end):
			return fmt.Errorf("ReadDocument returns %.50q, want %.50q", got, text)
		case string(got) == text && (text != "" || got == nil):
			return nil
		}
	}
}

// named checks that an error names the registry.
func (s *swapper) named(err error) error {
	if !strings.Contains(err.Error(), s.h.Name) {
		return fmt.Errorf("an error does not name the registry, %q: %w", s.h.Name, err)
	}
	return nil
}

func (s *swapper) swaps(ctx context.Context) error {
	odd := "% + & = \u00e4\u2028 \"\n\t\\x\r\n" // characters that a protocol may change
	largest := strings.Repeat("large ", s.h.Largest/6+1)[:s.h.Largest]
	almost := largest[:len(largest)-1] + "."
	return steps(
		s.swap(ctx, "", ""), s.refused(ctx, "", "absent", "new"), s.refused(ctx, "", "absent", ""),
		s.swap(ctx, "", "first"),
		s.refused(ctx, "first", "", "new"), s.refused(ctx, "first", "", ""), s.refused(ctx, "first", "other", "new"),
		s.refused(ctx, "first", "other", ""), s.refused(ctx, "first", "first ", "first"), s.refused(ctx, "first", "new", "new"),
		s.swap(ctx, "first", "first"), s.swap(ctx, "first", odd), s.swap(ctx, odd, largest),
		s.refused(ctx, largest, almost, "new"), s.refused(ctx, largest, odd, ""), s.swap(ctx, largest, almost),
		s.swap(ctx, almost, ""), s.refused(ctx, "", almost, "new"), s.refused(ctx, "", "first", ""),
		s.swap(ctx, "", "again"), s.swap(ctx, "again", ""), s.swap(ctx, "", "again"),
		s.foreign(ctx),
	)
}

// foreign returns a step that writes and deletes the document without the registry under test.
func (s *swapper) foreign(ctx context.Context) func() error {
	put := func(text string) func() error {
		return func() error { return errors.Join(s.h.Put([]byte(text)), s.holds(ctx, text)) }
	}
	return func() error {
		return steps(
			put("foreign"), s.refused(ctx, "foreign", "again", "new"), s.swap(ctx, "foreign", "ours"),
			put(""), s.refused(ctx, "", "ours", "new"), s.swap(ctx, "", "again"),
		)
	}
}

// bounds checks documents that no registry stores, and keys that none has.
func (s *swapper) bounds(ctx context.Context) error {
	if s.h.Key == "" {
		return nil
	}
	err := s.w.SwapDocument(ctx, s.h.Key, []byte("again"), make([]byte, registry.MaxDocument+1))
	if err == nil || errors.Is(err, registry.ErrChanged) {
		return errors.Join(errors.New("a document that is too large is accepted"), err)
	}
	if err := s.named(err); err != nil {
		return err
	}
	if err := s.w.SwapDocument(ctx, "", nil, []byte("x")); err == nil {
		return errors.New("a document without a key is accepted")
	} else if err := s.named(err); err != nil {
		return err
	}
	if _, err := s.w.ReadDocument(ctx, ""); err == nil {
		return errors.New("a document without a key is read")
	} else if err := s.named(err); err != nil {
		return err
	}
	return s.holds(ctx, "again")
}

// writerInOutage checks that in an outage neither method takes the document for absent or
// changed, and that the errors name the registry.
func writerInOutage(ctx context.Context, h DocumentHarness) error {
	w, ok := h.Documents.(registry.DocumentWriter)
	if !ok {
		return nil
	}
	s := &swapper{h: h, w: w}
	if _, err := w.ReadDocument(ctx, h.Key); err == nil {
		return errors.New("in an outage ReadDocument returns no error")
	} else if err := s.named(err); h.Name != "" && err != nil {
		return err
	}
	switch err := w.SwapDocument(ctx, h.Key, []byte("other"), []byte("new")); {
	case err == nil, errors.Is(err, registry.ErrChanged):
		return errors.Join(errors.New("in an outage SwapDocument returns a result"), err)
	default:
		return s.named(err)
	}
}

// Numbers of the check of writers at once.
const (
	writers = 8
	marks   = 12 // of each writer
)

// documentWriters has many writers add marks to the document at once, by reading and
// swapping. It fails if a mark is lost or is there twice, or if it takes too long.
func documentWriters(ctx context.Context, h DocumentHarness) error {
	w, ok := h.Documents.(registry.DocumentWriter)
	if !ok {
		return nil
	}
	r := read(ctx, h)
	s := &swapper{h, w, r}
	if err := s.clear(ctx); err != nil {
		return errors.Join(err, r.end())
	}
	limit, cancel := context.WithTimeout(ctx, 8*h.Within)
	defer cancel()
	failed := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := 0; n < marks && failed[i] == nil; n++ {
				failed[i] = s.mark(limit, fmt.Sprintf("%d.%d ", i, n))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return errors.Join(err, r.end())
	}
	text, err := w.ReadDocument(ctx, h.Key)
	if err == nil {
		err = allMarks(string(text))
	}
	return errors.Join(err, r.wantText(string(text)), r.end())
}

// mark adds a mark to the document. It tries again while others change it.
func (s *swapper) mark(ctx context.Context, mark string) error {
	for {
		text, err := s.w.ReadDocument(ctx, s.h.Key)
		if err == nil {
			err = s.w.SwapDocument(ctx, s.h.Key, text, append(bytes.Clone(text), mark...))
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, registry.ErrChanged):
			return fmt.Errorf("one of %d writers at once: %w", writers, err)
		case ctx.Err() != nil:
			return fmt.Errorf("one of %d writers at once does not get its turn: %w", writers, err)
		}
	}
}

func allMarks(text string) error {
	seen := make(map[string]int)
	for mark := range strings.FieldsSeq(text) {
		seen[mark]++
	}
	for i := range writers {
		for n := range marks {
			if mark := fmt.Sprintf("%d.%d", i, n); seen[mark] != 1 {
				return fmt.Errorf("of %d writers at once, the mark %s is in the document %d times", writers, mark, seen[mark])
			}
		}
	}
	return nil
}
