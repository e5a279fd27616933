package sim

import (
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/resilience"
)

// member is an instance as one client knows it: its connection and its breaker.
type member struct {
	lost    bool // there is no connection
	breaker *resilience.Breaker
	slow    time.Duration // latency from which on a call does not close the breaker
}

// health has the breakers of a client's members, as in package client: the breakers and the
// outlier detection are the real ones.
type health struct {
	outliers *resilience.Outliers // nil: no instance is left out
	next     time.Duration        // time of the next outlier check
	out      int                  // members whose breakers are not closed
}

// member returns the client's member for an instance.
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

// panics reports whether more members are left out than MaxShare allows: the others could not
// bear the load.
func (c *client) panics() bool {
	if c.health.outliers == nil {
		return true
	}
	return float64(c.health.out) > c.health.outliers.Config().MaxShare*float64(len(c.table.Nodes()))
}

// admit asks the breaker of an instance that was picked whether the call may be made.
func (c *client) admit(n *balance.Node) bool {
	m := c.member(n.Instance.ID)
	return m.breaker.Closed() || c.panics() || m.breaker.Admit(c.net.now)
}

// tell counts an attempt that has ended, and looks for outliers if that is due.
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

// eject trips the breakers of outliers while MaxShare allows it.
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

// faulty reports whether an error counts as a failure of the instance, as in package client.
func faulty(err error) bool {
	switch tandem.CodeOf(err) {
	case tandem.Unavailable, tandem.DeadlineExceeded, tandem.Internal, tandem.DataLoss:
		return true
	}
	return false
}
