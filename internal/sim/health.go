package sim

import (
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/resilience"
)

// member is an instance as one client has it: its connection and its breaker.
type member struct {
	lost    bool // there is no connection
	breaker *resilience.Breaker
	slow    time.Duration // the latency from which on a call does not bring it back
}

// health keeps the breakers of a client's members, as package client does: the
// breakers and the search for outliers are the real ones.
type health struct {
	outliers *resilience.Outliers // nil: nobody is left out
	next     time.Duration        // when to look for outliers
	out      int                  // members whose breakers are not closed
}

// member returns what the client has of an instance.
func (c *client) member(id string) *member {
	m := c.members[id]
	if m == nil {
		m = &member{breaker: resilience.NewBreaker(resilience.BreakerConfig{})}
		c.members[id] = m
	}
	return m
}

// usable reports whether an instance is connected and well.
func (c *client) usable(n *balance.Node) bool {
	m := c.member(n.Instance.ID)
	return !m.lost && (m.breaker.Closed() || c.panics() || m.breaker.Ready(c.net.now))
}

func (c *client) connected(n *balance.Node) bool { return !c.member(n.Instance.ID).lost }

// panics reports whether so many are left out that the others could not bear it.
func (c *client) panics() bool {
	if c.health.outliers == nil {
		return true
	}
	return float64(c.health.out) > c.health.outliers.Config().MaxShare*float64(len(c.table.Nodes()))
}

// admit asks the breaker of an instance that was picked.
func (c *client) admit(n *balance.Node) bool {
	m := c.member(n.Instance.ID)
	return m.breaker.Closed() || c.panics() || m.breaker.Admit(c.net.now)
}

// tell counts an attempt that has ended, and looks for outliers when it is time.
func (c *client) tell(a *attempt, failed bool) {
	h := &c.health
	if h.outliers == nil {
		return
	}
	m, took := c.member(a.node.Instance.ID), c.net.now-a.sent
	tooSlow := m.slow > 0 && took >= m.slow && !m.breaker.Closed()
	changed := m.breaker.Done(a.sent, c.net.now, failed || tooSlow)
	if a.sent >= h.next {
		h.next = a.sent + h.outliers.Config().Every
		c.eject()
	}
	if changed {
		c.count()
	}
}

// eject trips the breakers of outliers, as long as enough others are left.
func (c *client) eject() {
	nodes := c.table.Nodes()
	samples := make([]resilience.Sample, len(nodes))
	for i, n := range nodes {
		ended, failed := n.Stats.Calls()
		samples[i] = resilience.Sample{ID: n.Instance.ID, Calls: ended, Failures: failed, Latency: n.Stats.Latency()}
	}
	h := &c.health
	for _, o := range h.outliers.Look(samples) {
		m := c.member(o.ID)
		if float64(h.out+1) <= h.outliers.Config().MaxShare*float64(len(nodes)) && m.breaker.Trip(c.net.now) {
			m.slow = o.Limit
			h.out++
		}
	}
}

// count counts the breakers that are not closed.
func (c *client) count() {
	c.health.out = 0
	for _, n := range c.table.Nodes() {
		if !c.member(n.Instance.ID).breaker.Closed() {
			c.health.out++
		}
	}
}

// faulty reports whether an error speaks against the instance, as package client
// has it.
func faulty(err error) bool {
	switch tandem.CodeOf(err) {
	case tandem.Unavailable, tandem.DeadlineExceeded, tandem.Internal, tandem.DataLoss:
		return true
	}
	return false
}
