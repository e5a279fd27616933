package pool

import (
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/resilience"
)

// force is what an operator has set for the breaker of an instance. It stays when the instance
// leaves the list and comes back.
type force struct {
	open  bool
	until time.Time
	timer *time.Timer
}

// ForceBreaker opens or closes the breaker of an instance until that time, if it is in the future;
// else it ends what was forced before. It fails if the instance is not listed.
func (p *Pool) ForceBreaker(id string, open bool, until time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.view.Load()
	switch {
	case p.closed.Load():
		return unavailable("%v", ErrClosed)
	case v == nil || v.placeOf(id) < 0 && v.withheld[id] == "":
		return &tandem.Error{Code: tandem.NotFound, NotExecuted: true, Message: fmt.Sprintf("no instance %q in %s", id, p.cfg.Target)}
	}
	if !until.After(time.Now()) {
		p.endForce(id)
		return nil
	}
	p.health.mu.Lock()
	if old := p.health.forces[id]; old != nil {
		old.timer.Stop()
	}
	f := &force{open: open, until: until}
	f.timer = time.AfterFunc(time.Until(until), func() { p.cfg.Life.Run(func() { p.expire(id, f) }) })
	if p.health.forces == nil {
		p.health.forces = make(map[string]*force)
	}
	p.health.forces[id] = f
	if m := v.memberOf(id); m != nil {
		p.health.forceLocked(id, m.breaker)
	}
	p.health.mu.Unlock()
	p.health.count()
	p.cfg.Log.Warn("circuit breaker is "+p.health.forcedText(id), "instance", id)
	return nil
}

// expire ends a force whose time is over, unless another has replaced it.
func (p *Pool) expire(id string, f *force) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health.mu.Lock()
	current := p.health.forces[id] == f
	p.health.mu.Unlock()
	if current {
		p.endForce(id)
	}
}

// endForce lets the breaker of an instance decide again. The mutex of the pool is held.
func (p *Pool) endForce(id string) {
	h, v := &p.health, p.view.Load()
	h.mu.Lock()
	f := h.forces[id]
	if f == nil {
		h.mu.Unlock()
		return
	}
	f.timer.Stop()
	delete(h.forces, id)
	if m := v.memberOf(id); m != nil {
		now := balance.Now()
		m.breaker.Force(false, now, now)
		if h.rules().Ejection == nil || v.sole != nil { // no call would close it
			m.breaker.Reset()
		}
	}
	h.mu.Unlock()
	h.count()
	p.cfg.Log.Warn("circuit breaker is not forced any more", "instance", id)
}

// endForces stops the timers.
func (h *health) endForces() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.forces {
		f.timer.Stop()
	}
	h.forces = nil
}

// forceLocked forces a breaker as an operator has set for its instance, if so.
func (h *health) forceLocked(id string, b *resilience.Breaker) {
	if f := h.forces[id]; f != nil {
		now := balance.Now()
		b.Force(f.open, now, now+time.Until(f.until))
	}
}

// forcedUntil returns until when the breaker of an instance is forced; zero if it is not.
func (h *health) forcedUntil(id string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.forces[id]; f != nil {
		return f.until
	}
	return time.Time{}
}

// forcedText says how the breaker of an instance is forced.
func (h *health) forcedText(id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch f := h.forces[id]; {
	case f == nil: // it has just ended
		return "not forced any more"
	case f.open:
		return "forced open until " + f.until.Format(time.RFC3339)
	default:
		return "forced closed until " + f.until.Format(time.RFC3339)
	}
}

// isForcedOpen reports whether an operator keeps the breaker of the member open.
func (m *member) isForcedOpen() bool {
	if m.breaker.Closed() {
		return false
	}
	_, forced := m.breaker.Forced(balance.Now())
	return forced
}
