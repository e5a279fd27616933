package authz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/policy"
)

// Option changes what [Follow] returns.
type Option func(*Authorizer)

// WithLogger sets the logger for changes of the rules, and for changes that can't be followed; by default they
// are not logged.
func WithLogger(l *slog.Logger) Option { return func(a *Authorizer) { a.logger = l } }

// Authorizer is a plugin for servers that refuses calls that its rules do not allow, with
// PermissionDenied. It must come after the plugins that authenticate: auth.New. It is safe for
// concurrent use.
type Authorizer struct {
	logger *slog.Logger
	rules  atomic.Pointer[Rules]

	allowed, denied atomic.Uint64

	mu     sync.Mutex
	status Status // without the counts

	stop context.CancelFunc // nil with fixed rules
	done chan struct{}
}

// Status says which rules are in force and what became of the last ones.
type Status struct {
	Version  string    // of the rules in force: their own, or the beginning of the text's hash
	Loaded   time.Time // when they came into force
	Error    string    // why the source's latest rules are not in force; "" if they are
	Failures uint64    // changes that could not be followed
	Allowed  uint64    // calls
	Denied   uint64    // calls
}

// Fixed returns an Authorizer with rules that do not change. It needs no Close.
func Fixed(r *Rules) (*Authorizer, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	a := &Authorizer{logger: slog.New(slog.DiscardHandler)}
	a.rules.Store(r)
	a.status.Version, a.status.Loaded = r.Version, time.Now()
	return a, nil
}

// readWithin bounds how long Follow waits for the first rules.
const readWithin = 10 * time.Second

// Follow returns an Authorizer that follows the rules of a source, such as policy.File, until
// Close. It fails if the first rules can't be read or are not valid. When later ones can't be
// read or are not valid, those before stay in force; a log, the Status and its Failures say so.
func Follow(src policy.Source, opts ...Option) (*Authorizer, error) {
	a := &Authorizer{logger: slog.New(slog.DiscardHandler), done: make(chan struct{})}
	for _, o := range opts {
		o(a)
	}
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	first := make(chan error, 1)
	go func() {
		defer close(a.done)
		err := src.Watch(ctx, func(text []byte, err error) {
			select {
			case first <- a.update(text, err):
			default: // only the first matters to Follow
			}
		})
		if ctx.Err() == nil { // the source has given up
			_ = a.update(nil, fmt.Errorf("the source of the rules has ended: %w", err))
		}
	}()
	timer := time.NewTimer(readWithin)
	defer timer.Stop()
	var err error
	select {
	case err = <-first:
	case <-a.done:
		err = errors.New("authz: the source has no rules")
	case <-timer.C:
		err = fmt.Errorf("authz: no rules were read within %v", readWithin)
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Close stops following. The rules stay in force.
func (a *Authorizer) Close() {
	if a.stop != nil {
		a.stop()
		<-a.done
	}
}

// update puts rules into force, or says why not.
func (a *Authorizer) update(text []byte, err error) error {
	var r *Rules
	if err == nil {
		r, err = Parse(text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.status.Error = err.Error()
		a.status.Failures++
		a.logger.Error("authorization rules were not changed", "error", err, "inForce", a.status.Version)
		return err
	}
	version := r.Version
	if version == "" {
		version = policy.VersionOf(text)
	}
	a.rules.Store(r)
	a.status.Version, a.status.Loaded, a.status.Error = version, time.Now(), ""
	a.logger.Info("authorization rules are in force", "version", version, "allow", len(r.Allow), "deny", len(r.Deny))
	return nil
}

// Status returns the present state.
func (a *Authorizer) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.status
	s.Allowed, s.Denied = a.allowed.Load(), a.denied.Load()
	return s
}

// Rules returns the rules in force. They must not be changed.
func (a *Authorizer) Rules() *Rules { return a.rules.Load() }

// KeepsNothing implements [plugin.KeepsNothing].
func (*Authorizer) KeepsNothing() {}

// ForMethod returns the plugin for the calls of a method.
func (a *Authorizer) ForMethod(m plugin.Method) any { return &guard{of: a, method: m.Name} }

// guard decides about the calls of one method.
type guard struct {
	of     *Authorizer
	method string // "" for methods that do not exist
	picked atomic.Pointer[picked]
}

// BeforeRequestHeader refuses calls that the rules do not allow.
func (g *guard) BeforeRequestHeader(_ context.Context, call *tandem.Call) error {
	q := Request{Caller: auth.PrincipalOf(call), Method: g.method, Metadata: call.Metadata}
	var allowed bool
	if g.method != "" {
		p := g.pick()
		allowed = !p.deny.fits(&q, true) && p.allow.fits(&q, false)
	} else { // no handler will run, but who is denied the whole service must not hear which methods it has
		q.Method = call.Method
		allowed = g.of.rules.Load().Decide(&q).Allowed
	}
	if !allowed {
		g.of.denied.Add(1)
		return tandem.Errorf(tandem.PermissionDenied, "the caller may not call this method") // and nothing about the rules
	}
	g.of.allowed.Add(1)
	return nil
}

// pick returns the rules in force for the method.
func (g *guard) pick() *picked {
	rules := g.of.rules.Load()
	if p := g.picked.Load(); p != nil && p.from == rules {
		return p
	}
	p := &picked{rules, newIndex(rules.Allow, g.method), newIndex(rules.Deny, g.method)}
	g.picked.Store(p)
	return p
}

// picked are the rules that concern a method, of those in force.
type picked struct {
	from        *Rules
	allow, deny index
}

// index finds the rules for a caller, so that a call does not take longer when there are many callers.
type index struct {
	named map[string][]*Rule // rules that name the caller
	other []*Rule            // rules with patterns, or for anyone
}

func newIndex(rules []Rule, method string) index {
	x := index{named: map[string][]*Rule{}}
	for _, r := range pointers(rules) {
		switch {
		case !r.hasMethod(method):
		case r.Anyone || slices.ContainsFunc(r.Callers, func(c string) bool { return strings.HasSuffix(c, "*") }):
			x.other = append(x.other, r)
		default:
			for _, c := range r.Callers {
				x.named[c] = append(x.named[c], r)
			}
		}
	}
	return x
}

// fits reports whether a rule fits the call.
func (x *index) fits(q *Request, denies bool) bool {
	if q.Caller != nil {
		for _, r := range x.named[q.Caller.Name] {
			if r.missesElsewhere(q, denies) == "" {
				return true
			}
		}
	}
	for _, r := range x.other {
		if r.hasCaller(q.Caller) && r.missesElsewhere(q, denies) == "" {
			return true
		}
	}
	return false
}
