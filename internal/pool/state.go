package pool

import (
	"maps"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/resilience"
)

// State describes a pool for monitoring. Its fields are those of package client's State.
type State struct {
	Connections int
	Instances   Instances
	Ejections   uint64
	Breakers    []Breakers
	Listed      time.Time
	Failing     time.Time
	Stale       error
	Panicking   bool
}

// Instances counts the instances of a list by their state; each is in one state.
type Instances struct{ Ready, Ejected, Suspect, Unconnected, Unused, Withheld int }

// Breakers counts the circuit breakers of a method, one for each instance, by their state.
type Breakers struct {
	Method                 string
	Closed, HalfOpen, Open int
}

// State returns the state of the pool.
func (p *Pool) State() State {
	p.mu.Lock()
	s := State{Listed: p.listed, Failing: p.failing}
	p.mu.Unlock()
	s.Ejections = p.health.ejections.Load()
	v := p.view.Load()
	if v == nil {
		return s
	}
	s.Stale, s.Instances.Withheld = v.stale, len(v.withheld)
	s.Panicking = p.health.panics(v)
	methods := map[string]*Breakers{}
	for i, n := range v.nodes {
		m := v.members[i]
		*s.Instances.of(p, v, n, m)++
		if m != nil {
			s.Connections += m.connected()
			m.countBreakers(methods)
		}
	}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		s.Breakers = append(s.Breakers, *methods[method])
	}
	return s
}

// of returns the count that an instance belongs to. m may be nil.
func (c *Instances) of(p *Pool, v *view, n *balance.Node, m *member) *int {
	switch {
	case m == nil:
		return &c.Unused
	case p.suspicion(v, n) != "":
		return &c.Suspect
	case !m.live():
		return &c.Unconnected
	case !m.breaker.Closed():
		return &c.Ejected
	}
	return &c.Ready
}

// connected returns how many connections to the instance take calls.
func (m *member) connected() (n int) {
	for i := range m.links {
		if m.links[i].live.Load() != nil {
			n++
		}
	}
	return n
}

// countBreakers adds the breakers of the instance's methods to the counts.
func (m *member) countBreakers(to map[string]*Breakers) {
	for method, b := range m.breakers() {
		c := to[method]
		if c == nil {
			c = &Breakers{Method: method}
			to[method] = c
		}
		switch b.State(balance.Now()) {
		case resilience.BreakerClosed:
			c.Closed++
		case resilience.BreakerHalfOpen:
			c.HalfOpen++
		case resilience.BreakerOpen:
			c.Open++
		}
	}
}

// dateLocked records when a list came, or since when the registry has failed.
func (p *Pool) dateLocked(stale error) {
	now := time.Now()
	switch {
	case stale == nil:
		p.listed, p.failing = now, time.Time{}
	case p.failing.IsZero():
		p.failing = now
	}
}
