package registrytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// DocumentHarness is a registry that keeps documents, and a key without a document.
// Optional functions may be nil; their checks are then skipped.
type DocumentHarness struct {
	Documents registry.Documents
	Key       string
	// Name is in every error of the registry, such as "etcd registry"; not checked when
	// it is empty.
	Name string
	// Largest is the size of the largest document that the registry stores, in bytes;
	// [registry.MaxDocument] when it is 0.
	Largest int
	// Put writes a document under the key without the registry under test; an
	// empty text deletes it.
	Put func(text []byte) error
	// Outage is that of [Harness]; optional.
	Outage func() (end func() error, err error)
	// Leave ends the client that has put reports, as the end of its process would;
	// optional. When it is nil, reports must end with their life, which is 2 s.
	Leave func() error
	// Within is the longest time until a change is seen; 5 s when it is 0.
	Within time.Duration
}

// CheckDocuments checks a registry's documents and returns the first failure. It leaves
// nothing running.
func CheckDocuments(ctx context.Context, h DocumentHarness) error {
	if h.Within <= 0 {
		h.Within = 5 * time.Second
	}
	if h.Largest <= 0 {
		h.Largest = registry.MaxDocument
	}
	for _, check := range []struct {
		name string
		run  func(context.Context, DocumentHarness) error
	}{{"a document's life", documentLife}, {"writing", documentWriter}, {"writers at once", documentWriters}, {"an outage", documentOutage}, {"reports", reports}} {
		if err := check.run(ctx, h); err != nil {
			return fmt.Errorf("%s: %w", check.name, err)
		}
	}
	return nil
}

// reading is a watch of a document.
type reading struct {
	within time.Duration
	seen   chan delivery
	ended  chan error
	cancel context.CancelFunc
}

type delivery struct {
	text string
	err  error
}

// read begins a watch.
func read(ctx context.Context, h DocumentHarness) *reading {
	ctx, cancel := context.WithCancel(ctx)
	r := &reading{h.Within, make(chan delivery, 1000), make(chan error, 1), cancel}
	go func() {
		r.ended <- h.Documents.WatchDocument(ctx, h.Key, func(text []byte, err error) { r.seen <- delivery{string(text), err} })
	}()
	return r
}

// want waits for a delivery for which right returns true. It ignores other deliveries
// before it, but fails when one is delivered twice in a row.
func (r *reading) want(what string, right func(delivery) bool) error {
	timeout := time.NewTimer(r.within)
	defer timeout.Stop()
	var all []string
	var last delivery
	for {
		select {
		case s := <-r.seen:
			if right(s) {
				return nil
			}
			line := fmt.Sprintf("%.50q %v", s.text, s.err)
			if len(all) > 0 && last.text == s.text && fmt.Sprint(last.err) == fmt.Sprint(s.err) {
				return fmt.Errorf("%s is delivered twice", line)
			}
			all, last = append(all, line), s
		case err := <-r.ended:
			return fmt.Errorf("%s: the watch ended: %w", what, err)
		case <-timeout.C:
			return fmt.Errorf("%s is not delivered within %v; there was: %s", what, r.within, strings.Join(all, "; "))
		}
	}
}

func (r *reading) wantText(text string) error {
	return r.want(fmt.Sprintf("%.50q", text), func(s delivery) bool { return s.err == nil && s.text == text })
}

// end ends the watch and checks that it returns its context's error.
func (r *reading) end() error {
	r.cancel()
	select {
	case err := <-r.ended:
		if !errors.Is(err, context.Canceled) {
			return errors.Join(errors.New("the watch ended with another error than the context's"), err)
		}
		return nil
	case <-time.After(r.within):
		return errors.New("the watch does not end with its context")
	}
}

// steps runs steps until one fails.
func steps(list ...func() error) error {
	for _, step := range list {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func documentLife(ctx context.Context, h DocumentHarness) error {
	r := read(ctx, h)
	put := func(text string) func() error { return func() error { return h.Put([]byte(text)) } }
	sees := func(text string) func() error { return func() error { return r.wantText(text) } }
	none := func() error {
		return r.want("that there is none", func(s delivery) bool { return errors.Is(s.err, registry.ErrNoDocument) })
	}
	large := strings.Repeat("large ", 50_000)
	return errors.Join(steps(
		none, put("one"), sees("one"), put("two\n"), sees("two\n"), put(large), sees(large),
		put(""), none, put(large), sees(large),
		func() error {
			other := read(ctx, h) // a later watch sees the current document
			return errors.Join(other.wantText(large), other.end())
		},
	), r.end())
}

func documentOutage(ctx context.Context, h DocumentHarness) error {
	if h.Outage == nil {
		return nil
	}
	r := read(ctx, h)
	return errors.Join(steps(
		func() error { return h.Put([]byte("before")) },
		func() error { return r.wantText("before") },
		func() error {
			end, err := h.Outage()
			if err != nil {
				return err
			}
			failed := r.want("the outage", func(s delivery) bool { return s.err != nil && !errors.Is(s.err, registry.ErrNoDocument) })
			return errors.Join(failed, writerInOutage(ctx, h), end())
		},
		func() error { return r.wantText("before") },
		func() error { return h.Put([]byte("after")) },
		func() error { return r.wantText("after") },
	), r.end())
}

func reports(ctx context.Context, h DocumentHarness) error {
	const life = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, 4*h.Within)
	defer cancel()
	put := func(name, text string, life time.Duration) error {
		return h.Documents.PutReport(ctx, h.Key, name, []byte(text), life)
	}
	names := []string{"host/1/x y", "host.2", "ä%2f"}
	for _, name := range names { // the last life is long enough to read all of them on a busy machine
		if err := errors.Join(put(name, "first", life), put(name, "of "+name, time.Minute)); err != nil {
			return err
		}
	}
	got, err := h.Documents.Reports(ctx, h.Key)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !bytes.Equal(got[name], []byte("of "+name)) {
			return fmt.Errorf("%q is reported as %q; there are %q", name, got[name], slices.Sorted(maps.Keys(got)))
		}
	}
	if len(got) != len(names) {
		return fmt.Errorf("reports of %q, put were %q", slices.Sorted(maps.Keys(got)), names)
	}
	if put("", "no name", life) == nil || put("large", strings.Repeat("x", registry.MaxReport+1), life) == nil {
		return errors.New("a report without a name, or one that is too large, is accepted")
	}
	for _, name := range names {
		if err := put(name, "the last", life); err != nil {
			return err
		}
	}
	if h.Leave != nil {
		if err := h.Leave(); err != nil {
			return err
		}
	}
	for end := time.Now().Add(life + h.Within); time.Now().Before(end); time.Sleep(life / 20) { // polls: the end of a report is not reported
		if got, err = h.Documents.Reports(ctx, h.Key); err == nil && len(got) == 0 {
			return nil
		}
	}
	return fmt.Errorf("reports stay when their life is over: %q, %w", slices.Sorted(maps.Keys(got)), err)
}
