package admin

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

const (
	timedRate = 2000      // about how many calls of a method are timed in a second
	never     = 1<<24 - 1 // the skip of methods while nobody can ask for their times
)

// method counts the calls of one method on one side.
type method struct {
	key
	admin *Admin

	shards []shard
	skip   atomic.Uint32 // a call is timed if its random number has none of these bits
	took   histogram     // of the calls that were timed
	errors [codes]atomic.Uint64

	history history
}

// shard holds the counts of the calls that began on one processor, so that processors do not wait
// for each other's caches.
type shard struct {
	begun, ended atomic.Uint64
	_            [112]byte
}

const codes = int(tandem.Unauthenticated) + 1

var (
	_ plugin.PerMethod  = (*Admin)(nil)
	_ plugin.Intercepts = (*calls)(nil)
)

// ForMethod returns the plugin that counts a server's calls of a method.
func (a *Admin) ForMethod(of plugin.Method) any {
	if strings.HasPrefix(of.Name, Service+".") {
		return nil
	}
	return a.method(key{"", cmp.Or(of.Name, Other)})
}

// Intercept counts the calls of a server's method.
func (m *method) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error { return m.pass(ctx, call, next) }
}

// calls counts the calls of one client.
type calls struct {
	admin *Admin
	name  string
	known atomic.Pointer[map[string]*method] // copied to be changed; without those that count as Other
}

func (a *Admin) callsOf(client string) *calls {
	c := &calls{admin: a, name: client}
	c.known.Store(&map[string]*method{})
	return c
}

// KeepsNothing implements [plugin.KeepsNothing].
func (*calls) KeepsNothing() {}

// Intercept counts the client's calls.
func (c *calls) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		m := (*c.known.Load())[call.Method]
		if m == nil {
			m = c.learn(call.Method)
		}
		return m.pass(ctx, call, next)
	}
}

// learn returns the counts of a method that the client calls for the first time.
func (c *calls) learn(name string) *method {
	m := c.admin.method(key{c.name, name})
	for m.key.method == name {
		before := c.known.Load()
		after := maps.Clone(*before)
		after[name] = m
		if c.known.CompareAndSwap(before, &after) {
			break
		}
	}
	return m
}

// pass counts a call. What counting needs beyond two counters, it does for some of the calls only.
func (m *method) pass(ctx context.Context, call *tandem.Call, next tandem.Func) error {
	s, random := m.here()
	s.begun.Add(1)
	skip := m.skip.Load()
	switch {
	case random&skip == 0:
		return m.observe(ctx, call, next, s, uint64(skip)+1)
	case m.admin.taps.Load() != nil:
		return m.observe(ctx, call, next, s, 0)
	}
	if call.Kind == tandem.Streaming && m.client != "" {
		call.OnEnd(func(error) { s.ended.Add(1) })
	} else {
		defer s.ended.Add(1)
	}
	err := next(ctx, call)
	if err != nil {
		m.errors[codeOf(err)].Add(1)
	}
	return err
}

// processor is what a goroutine finds on the processor that it runs on.
type processor struct {
	shard  int
	random uint64 // state of a linear congruential generator, with the constants of Knuth's MMIX
	_      [112]byte
}

// here returns the shard of this processor, or nearly so, and a random number: a pool keeps what a
// processor has put into it for the same processor.
func (m *method) here() (s *shard, random uint32) {
	p := m.admin.processors.Get().(*processor) //nolint:forcetypeassert // nothing else is in the pool
	p.random = p.random*6364136223846793005 + 1442695040888963407
	s, random = &m.shards[p.shard], uint32(p.random>>32)
	m.admin.processors.Put(p)
	return s, random
}

func codeOf(err error) tandem.Code {
	if code := tandem.CodeOf(err); code.Valid() {
		return code
	}
	return tandem.Unknown
}

// observe makes a call that is timed, and stands for as many as weight says. The call may be
// shown to taps, and kept as a span.
func (m *method) observe(ctx context.Context, call *tandem.Call, next tandem.Func, s *shard, weight uint64) (err error) {
	o := m.newObserved(call)
	done := false
	end := func(err error) {
		s.ended.Add(1)
		took := time.Since(o.began)
		if weight > 0 {
			m.took.add(took, weight)
		}
		if err != nil {
			m.errors[codeOf(err)].Add(1)
		}
		o.end(call, took, err)
	}
	defer func() {
		switch {
		case !done: // it panicked, or the method ended its goroutine
			end(&tandem.Error{Code: tandem.Internal, Message: "the method panicked"})
		case err != nil || call.Kind != tandem.Streaming || m.client == "":
			end(err)
		default:
			call.OnEnd(end)
		}
	}()
	err = next(ctx, call)
	done = true
	return err
}

// method returns the counts of a method.
func (a *Admin) method(k key) *method {
	if m := (*a.all.Load())[k]; m != nil {
		return m
	}
	return a.newMethod(k)
}

func (a *Admin) newMethod(k key) *method {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := *a.all.Load()
	if all[k] == nil && k.client != "" && (a.called >= MaxCalled || !utf8.ValidString(k.method)) {
		k.method = Other
	}
	if m := all[k]; m != nil {
		return m
	}
	if k.client != "" && k.method != Other {
		a.called++
	}
	m := &method{key: k, admin: a, shards: make([]shard, a.shards)}
	if !a.sampler {
		m.skip.Store(never)
	}
	all = maps.Clone(all)
	all[k] = m
	a.all.Store(&all)
	return m
}

// totals returns how many calls have begun, ended and failed.
func (m *method) totals() (begun, ended, failed uint64) {
	for i := range m.shards { // ended first: a call that ends meanwhile must not look as if it had not begun
		ended += m.shards[i].ended.Load()
	}
	for i := range m.shards {
		begun += m.shards[i].begun.Load()
	}
	for i := range m.errors {
		failed += m.errors[i].Load()
	}
	return begun, ended, failed
}
