package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

const (
	lookEvery   = 10 * time.Second // how often a registry is asked for its lists
	lookTimeout = 20 * time.Second
)

// source is a registry, and its lists.
type source struct {
	c         *Console
	target    registry.Target
	resolver  registry.Resolver
	directory registry.Directory // nil if the target is the only list

	mu    sync.Mutex
	lists map[string]*list // by name
	err   error
	at    time.Time
}

// list is a list of instances that is followed.
type list struct {
	source *source
	name   string // its target, without secrets
	target registry.Target
	cancel context.CancelFunc

	documents registry.Documents // nil if the registry keeps none
	key       string             // of the overrides

	mu        sync.Mutex
	instances []tandem.Instance
	stale     error // why the instances may be old
	set       *override.Overrides
	setErr    error // why the overrides are not known, or not valid
}

func newSource(c *Console, r Registry) (*source, error) {
	t, err := registry.ParseTarget(r.Target)
	if err != nil {
		return nil, err
	}
	if r.Resolver == nil {
		return nil, fmt.Errorf("%s: no resolver", registry.Redact(r.Target))
	}
	s := &source{c: c, target: t, resolver: r.Resolver, lists: map[string]*list{}}
	s.directory, _ = r.Resolver.(registry.Directory)
	return s, nil
}

// run finds the lists of the source, and follows them.
func (s *source) run() {
	defer s.keep(nil)
	for {
		found, err := s.find()
		s.mu.Lock()
		before := s.err
		s.err = err
		if err == nil {
			s.at = time.Now()
		}
		s.mu.Unlock()
		s.logChange(before, err)
		if err == nil {
			s.keep(found)
		}
		select {
		case <-time.After(lookEvery):
		case <-s.c.ctx.Done():
			return
		}
	}
}

// logChange logs that the registry can't be read any more, or can again.
func (s *source) logChange(before, err error) {
	name := s.target.Redacted()
	switch {
	case s.c.ctx.Err() != nil:
	case err != nil && before == nil:
		s.c.cfg.Log.Warn("the registry can't be read, and is asked again", "registry", name, "every", lookEvery, "error", err)
	case err == nil && before != nil:
		s.c.cfg.Log.Info("the registry can be read again", "registry", name)
	}
}

func (s *source) find() ([]registry.Target, error) {
	if s.directory == nil {
		return []registry.Target{s.target}, nil
	}
	ctx, cancel := context.WithTimeout(s.c.ctx, lookTimeout)
	defer cancel()
	return s.directory.Lists(ctx, s.target)
}

// keep follows the lists that are found, and leaves those that are gone, unless they still have
// instances: a list that is empty for a moment stays.
func (s *source) keep(found []registry.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]bool{}
	for _, t := range found {
		name := t.Redacted()
		there[name] = true
		if s.lists[name] == nil {
			s.lists[name] = s.follow(name, t)
		}
	}
	for name, l := range s.lists {
		if !there[name] && (found == nil || l.isEmpty()) {
			l.cancel()
			delete(s.lists, name)
		}
	}
}

// follow begins to follow a list.
func (s *source) follow(name string, t registry.Target) *list {
	ctx, cancel := context.WithCancel(s.c.ctx)
	l := &list{source: s, name: name, target: t, cancel: cancel, set: new(override.Overrides)}
	k := &adapter.Keeper{Log: s.c.cfg.Log}
	s.c.wg.Go(func() {
		if err := k.Watch(ctx, s.resolver, t, l.update); err != nil && ctx.Err() == nil {
			l.fail(err)
		}
	})
	if finder, ok := s.resolver.(registry.DocumentFinder); ok {
		documents, key, err := finder.DocumentsOf(t)
		if err != nil {
			l.setErr = err
			return l
		}
		l.documents, l.key = documents, key
		s.c.wg.Go(func() {
			if err := documents.WatchDocument(ctx, key, l.override); err != nil && ctx.Err() == nil {
				l.override(nil, err)
			}
		})
	}
	return l
}

func (l *list) update(v adapter.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instances, l.stale = v.Instances, v.Stale
}

func (l *list) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = err
}

func (l *list) override(text []byte, err error) {
	set := new(override.Overrides)
	if errors.Is(err, registry.ErrNoDocument) {
		err = nil
	}
	if err == nil {
		set, err = override.Parse(text)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.setErr = err; err == nil {
		l.set = set
	}
}

func (l *list) isEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.instances) == 0
}

// rows returns the instances with their states, sorted by ID.
func (l *list) rows() []InstanceRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	return rowsOf(l.name, l.instances, l.set, time.Now())
}

// rowsOf returns instances as overrides make them.
func rowsOf(name string, instances []tandem.Instance, set *override.Overrides, now time.Time) []InstanceRow {
	effect := set.Apply(instances, now)
	weights := make(map[string]int, len(effect.Enabled))
	for i := range effect.Enabled {
		weights[effect.Enabled[i].ID] = cmp.Or(effect.Enabled[i].Weight, tandem.DefaultWeight)
	}
	rows := make([]InstanceRow, 0, len(instances))
	for _, in := range instances {
		if tags, set := effect.Tags[in.ID]; set {
			in.Tags = tags
		}
		r := InstanceRow{Instance: in, List: name, State: State(override.Enabled), Set: weights[in.ID]}
		if o, withheld := effect.Withheld[in.ID]; withheld {
			r.State, r.Why, r.Until = State(o.State), o.String(), o.Until
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b InstanceRow) int { return strings.Compare(a.ID, b.ID) })
	return rows
}

// lists returns all lists, sorted by name.
func (c *Console) lists() (all []*list) {
	for _, s := range c.sources {
		s.mu.Lock()
		all = slices.AppendSeq(all, maps.Values(s.lists))
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *list) int { return strings.Compare(a.name, b.name) })
	return all
}

// list returns a list by its name.
func (c *Console) list(name string) (*list, error) {
	for _, s := range c.sources {
		s.mu.Lock()
		l := s.lists[name]
		s.mu.Unlock()
		if l != nil {
			return l, nil
		}
	}
	return nil, tandem.Errorf(tandem.NotFound, "no list %q", name)
}

// states returns the sources with their states.
func (c *Console) states() []Source {
	out := []Source{}
	for _, s := range c.sources {
		out = append(out, s.state())
	}
	return out
}

func (s *source) state() Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Source{Name: s.target.Redacted(), Lists: len(s.lists), At: s.at}
	if s.err != nil {
		st.Error = s.err.Error()
	}
	_, st.Documents = s.resolver.(registry.DocumentFinder)
	return st
}
