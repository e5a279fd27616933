package client

import (
	"errors"
	"time"

	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/session"
)

// suspicion says why it is doubtful that an instance still runs, "" if it is not. A
// suspect gets calls if it answers; it is not waited for.
func (p *pool) suspicion(v *view, n *balance.Node) string {
	switch m := v.member(n); {
	case m != nil && m.silent():
		return "it does not answer pings"
	case v.suspects[n.Instance.ID]:
		return "the registry has lost it"
	}
	return ""
}

// well reports whether it is connected and answers.
func (m *member) well() bool {
	for i := range m.links { // every pick comes here
		if m.links[i].well() {
			return true
		}
	}
	return false
}

// silent reports whether it stopped to answer pings, and has not connected again.
func (m *member) silent() bool {
	for i := range m.links {
		if m.links[i].silent.Load() != nil {
			return !m.well()
		}
	}
	return false
}

// move reports whether a call that waits at a suspect session is to be made at another
// instance: there is one that answers, and the retry budget pays.
func (p *pool) move(from *session.Session) bool {
	for m := range p.view.Load().all() {
		if m.peer.Instance != from.Peer().Instance && m.well() && m.breaker.Closed() {
			return p.client.budget.Take(time.Now())
		}
	}
	return false
}

// moved reports whether an attempt was given up because move has said so.
func moved(err error) bool { return errors.Is(err, session.ErrMoved) }

func (p *pool) isWell(n *balance.Node) bool {
	m := p.view.Load().member(n)
	return m != nil && m.well()
}
