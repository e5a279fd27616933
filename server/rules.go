package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/lazyctx"
	"github.com/tandem-rpc/tandem/internal/served"
	"github.com/tandem-rpc/tandem/internal/steer"
	"github.com/tandem-rpc/tandem/policy"
)

// Rules say where a server's rules are from, for [WithRules].
type Rules struct {
	// Source provides the rules, and new ones while the server runs: [policy.File], or
	// [policy.FromRegistry]. nil means that First stays.
	Source policy.Source
	// First holds until the Source has provided valid rules; nil means no rules. Rules that refuse
	// all callers, {"default": {"allow": []}}, keep a server closed that does not know its own yet.
	First *policy.Server
	// Name of the server in its reports to the Source; "" means one made of the host's name, the
	// process's number and a random word.
	Name string
}

// WithRules makes the server follow rules that are data: who may call a method, limits, the longest
// deadline and the criticality of its calls. They hold for all protocols, and after all plugins and
// interceptors, so that the caller is authenticated; the criticality is needed, and so looked up,
// before. A call that they refuse has not executed. Its error is PermissionDenied, or
// ResourceExhausted with a RetryAfter if that is known. The refusal is the same for methods that do
// not exist.
//
// A document replaces the one before as a whole, for calls that begin after it; limits that stay the
// same keep their counts. An invalid document is refused as a whole and logged; the one before stays
// in force, as it does while the source has none. If the source is a [policy.Reporter], the server
// reports the result of each document to it.
func WithRules(r Rules) Option {
	return func(o *options) {
		if !o.want(r.Source != nil || r.First != nil, "WithRules", "neither", "a Source, a First, or both") {
			return
		}
		if r.First != nil {
			if err := r.First.Validate(); err != nil {
				o.wrong = append(o.wrong, fmt.Errorf("WithRules: First: %w", err))
				return
			}
		}
		if r.Name == "" {
			r.Name = steer.UniqueName()
		}
		o.rules = &r
	}
}

// rulesText is the setting as people read it.
func (o *options) rulesText() string {
	switch r := o.rules; {
	case r == nil:
		return "none"
	case r.Source == nil:
		return "fixed"
	default:
		return fmt.Sprintf("%T as %s", r.Source, r.Name)
	}
}

// RuleCounts counts what rules did to calls, see [WithRules].
type RuleCounts struct {
	Denied  uint64 `json:"denied"`  // calls of callers that may not make them
	Limited uint64 `json:"limited"` // calls beyond a limit
	Capped  uint64 `json:"capped"`  // calls that got an earlier deadline
}

// obedience is how a server keeps to its rules.
type obedience struct {
	begin    sync.Once
	inForce  atomic.Pointer[served.Rules] // nil before the first rules
	steering steer.State

	denied, limited, capped atomic.Uint64
}

// Rules returns which rules are in force, what was done with the last document, and what the rules
// did to calls so far. It is zero without [WithRules].
func (s *Server) Rules() (policy.Applied, RuleCounts) {
	r := &s.rules
	return r.steering.Last(), RuleCounts{Denied: r.denied.Load(), Limited: r.limited.Load(), Capped: r.capped.Load()}
}

// firstRules makes the rules of code.
func (s *Server) firstRules() {
	if s.opts.rules == nil || s.opts.rules.First == nil {
		return
	}
	text, err := json.Marshal(s.opts.rules.First)
	if err != nil { // its types can't fail
		return
	}
	if err := s.takeRules(text); err != nil {
		s.optionsErr = errors.Join(s.optionsErr, fmt.Errorf("WithRules: First: %w", err))
	}
}

// followRules starts the goroutines that follow the rules of the source, once.
func (s *Server) followRules() {
	if s.opts.rules == nil || s.opts.rules.Source == nil {
		return
	}
	src := s.opts.rules.Source
	s.rules.begin.Do(func() {
		s.rules.steering.Begin()
		s.wg.Go(func() {
			err := src.Watch(s.base, s.updateRules)
			if s.base.Err() == nil {
				s.updateRules(nil, errors.Join(errors.New("the rules are not followed any more"), err))
			}
		})
		if r, ok := src.(policy.Reporter); ok {
			s.wg.Go(func() { s.rules.steering.Report(s.base, r, s.log()) })
		}
	})
}

// takeRules puts the rules in a text in force.
func (s *Server) takeRules(text []byte) error {
	p, err := policy.ParseServer(text)
	if err != nil {
		return err
	}
	version := policy.VersionOf(text)
	s.rules.inForce.Store(served.New(p, version, s.rules.inForce.Load()))
	s.rules.steering.Record(policy.Applied{Client: s.opts.rules.Name, Version: version, InForce: version, At: time.Now()})
	return nil
}

// updateRules applies a document of the source, or records why it can't.
func (s *Server) updateRules(text []byte, err error) {
	before := s.rules.steering.Last()
	if err == nil {
		if err = s.takeRules(text); err == nil {
			if now := s.rules.steering.Last(); now.Version != before.Version || before.Error != "" {
				s.log().Info("rules applied", "version", now.Version)
			}
			return
		}
	}
	a := policy.Applied{Client: s.opts.rules.Name, At: time.Now(), InForce: before.InForce, Error: steer.Shortened(err)}
	if text != nil {
		a.Version = policy.VersionOf(text)
	}
	s.rules.steering.Record(a)
	if before.Version != a.Version || before.Error != a.Error {
		s.log().Warn("rules not applied; those before stay", "version", a.Version, "in force", a.InForce, "error", a.Error)
	}
}

// obey returns f for calls that the rules of a method let pass.
func (s *Server) obey(name string, f tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		r := s.rules.inForce.Load()
		if r == nil {
			return f(ctx, call)
		}
		m := r.Of(name)
		if err := m.Permit(call); err != nil {
			s.rules.denied.Add(1)
			return err
		}
		now := time.Now()
		if m.Limited() {
			place, err := m.Enter(now, call, served.TenantOf(call, tandem.BaggageFromContext(ctx)))
			if err != nil {
				s.rules.limited.Add(1)
				return err
			}
			defer place.Leave()
		}
		if capped := m.Capped(now, call.Deadline); !capped.Equal(call.Deadline) {
			s.rules.capped.Add(1)
			call.Deadline = capped
			timed := lazyctx.With(ctx, capped)
			defer timed.Cancel()
			ctx = timed
		}
		return f(ctx, call)
	}
}

// obeyAbsent is obey for the method that stands for those that do not exist.
func (s *Server) obeyAbsent(f tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if r := s.rules.inForce.Load(); r != nil {
			if err := r.Absent(s.table.Own(call.Method), call); err != nil {
				s.rules.denied.Add(1)
				return err
			}
		}
		return f(ctx, call)
	}
}

// ruledClass returns the class that a rule sets for a call; "" for none.
func (s *Server) ruledClass(call *tandem.Call) tandem.Criticality {
	if s.opts.rules == nil {
		return ""
	}
	r := s.rules.inForce.Load()
	if r == nil {
		return ""
	}
	name := call.Method
	if m := s.table.Lookup(name); m != nil {
		name = m.Name // the call may be by an alias
	}
	return r.Class(name)
}
