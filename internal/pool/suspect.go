package pool

import (
	"errors"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/session"
)

// suspicion returns why it is doubtful that an instance still runs, "" if it is not. A suspect
// gets calls if it is connected and answers; calls do not wait for a connection to it.
func (p *Pool) suspicion(v *view, n *balance.Node) string {
	switch m := v.member(n); {
	case m != nil && m.silent():
		return "it does not answer pings"
	case v.suspects[n.Instance.ID]:
		return "the registry has lost it"
	}
	return ""
}

// well reports whether the instance is connected and answers.
func (m *member) well() bool {
	for i := range m.links { // every pick calls well
		if m.links[i].well() {
			return true
		}
	}
	return false
}

// silent reports whether the instance has stopped answering pings, and no link of it is well.
func (m *member) silent() bool {
	for i := range m.links {
		if m.links[i].silent.Load() != nil {
			return !m.well()
		}
	}
	return false
}

// Move reports whether a call that waits at a suspect session is to be made at another
// instance: there is one that answers and that the call may go to, and the retry budget allows
// it.
func (p *Pool) Move(from *session.Session, call *tandem.Call) bool {
	v := p.view.Load()
	fits := func(n *balance.Node) bool {
		m := v.member(n)
		return n.Instance.ID != from.Peer().Instance && allowed(call, n) &&
			m != nil && m.well() && m.breaker.Closed() && !p.health.open(m, call)
	}
	nodes := v.nodes
	if !slices.ContainsFunc(nodes, fits) {
		return false
	}
	if eligible := p.rules.Load().Needs.Eligible; eligible != nil {
		nodes = eligible(nodes, call, fits)
	}
	return slices.ContainsFunc(nodes, fits) && p.cfg.Budget.Take(time.Now())
}

// moved reports whether an attempt was given up because move has returned true.
func moved(err error) bool { return errors.Is(err, session.ErrMoved) }

func (p *Pool) isWell(n *balance.Node) bool {
	m := p.view.Load().member(n)
	return m != nil && m.well()
}
