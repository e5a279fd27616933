package registrytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// session is one run of a check. It records the error of the first step that fails;
// after that, steps do nothing.
type session struct {
	h        Harness
	ctx      context.Context
	err      error
	watchers []*watcher
	entries  []registry.Registration
	restore  func() error // ends an outage
}

func newSession(ctx context.Context, h Harness) *session {
	return &session{h: h, ctx: ctx}
}

// failf records an error, unless there is one already.
func (s *session) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// attempt runs one step against the registry, with a context that ends after Within.
func (s *session) attempt(what string, step func(ctx context.Context) error) {
	if s.err != nil {
		return
	}
	if err := s.try(step); err != nil {
		s.failf("%s: %w", what, err)
	}
}

// refused runs a step that has to fail.
func (s *session) refused(what string, step func(ctx context.Context) error) {
	if s.err == nil && s.try(step) == nil {
		s.failf("%s was not refused", what)
	}
}

// try runs a step in a goroutine, so that it can fail for a step that does not end
// with its context.
func (s *session) try(step func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.h.within())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- step(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-returnTimeout(s.h):
		return errors.New("does not return, although its time is over")
	}
}

// register lists an instance. Once the session has failed the result is nil,
// and the steps that take it do nothing.
func (s *session) register(in tandem.Instance) registry.Registration {
	var entry registry.Registration
	s.attempt(fmt.Sprintf("registering %q", in.ID), func(ctx context.Context) (err error) {
		entry, err = s.h.Registrar.Register(ctx, in)
		return err
	})
	if s.err != nil {
		return nil
	}
	s.entries = append(s.entries, entry)
	return entry
}

func (s *session) update(entry registry.Registration, in tandem.Instance) {
	s.attempt(fmt.Sprintf("updating %q", in.ID), func(ctx context.Context) error { return entry.Update(ctx, in) })
}

func (s *session) close(entry registry.Registration) {
	s.attempt("closing a registration", func(context.Context) error { return entry.Close() })
}

// lose removes an instance from the list without the registrar.
func (s *session) lose(id string) {
	s.attempt("losing "+id, func(context.Context) error { return s.h.Lose(id) })
}

// outage begins an outage; restored or the end of the session ends it.
func (s *session) outage() {
	s.attempt("beginning the outage", func(context.Context) (err error) {
		s.restore, err = s.h.Outage()
		return err
	})
}

func (s *session) restored() {
	restore := s.restore
	s.restore = nil
	s.attempt("ending the outage", func(context.Context) error { return restore() })
}

// end ends the outage, the watchers and the registrations, and returns the first error
// of the check or of this cleanup.
func (s *session) end() error {
	if s.restore != nil {
		if err := s.restore(); err != nil {
			s.failf("ending the outage: %w", err)
		}
	}
	for _, w := range s.watchers {
		w.stop()
	}
	for _, entry := range s.entries {
		if err := s.try(func(context.Context) error { return entry.Close() }); err != nil {
			s.failf("closing a registration: %w", err)
		}
	}
	return s.err
}
