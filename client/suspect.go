package client

import (
	"github.com/tandem-rpc/tandem/balance"
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

func (p *pool) isWell(n *balance.Node) bool {
	m := p.view.Load().member(n)
	return m != nil && m.well()
}
