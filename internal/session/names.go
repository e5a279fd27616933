package session

import (
	"time"

	"github.com/tandem-rpc/tandem/internal/machine"
)

// method is a name and its Target, which a connection looks up once.
type method struct {
	name   string
	target *Target

	// Used only by the reader that has the turn.
	runs     uint64 // number of runs in the reader
	relieved uint64 // value of runs when it last held up the reader
	suspect  bool   // the last run that was timed took long
}

// timedRuns is the number of runs of which one is timed. The monitor does not notice short
// runs, but many of them hold up the calls behind them.
const timedRuns = 16

// longRun is the duration above which a run counts as long.
const longRun = 200 * time.Microsecond

// toTime reports whether the run that begins is to be timed: the first, one of [timedRuns],
// and the one after a long one.
func (m *method) toTime() bool { return m.suspect || m.runs%timedRuns == 1 }

// took records that a run took d ns. One long run means little on a busy machine; two in a row
// mean that the method does not belong in the reader.
func (m *method) took(d int64) {
	long := d > int64(longRun)
	if long && m.suspect {
		m.target.markSlow()
	}
	m.suspect = long && !m.suspect
}

// heldUp records that a run takes long. It marks the method as slow unless the last
// such run was rareRuns ago: then the machine was busy rather than the method slow.
func (m *method) heldUp() {
	if m.runs-m.relieved < rareRuns {
		m.target.markSlow()
	}
	m.relieved = m.runs
}

const rareRuns = 1000

// lookup is a Session as its machine's [machine.Names].
type lookup Session

// Lookup finds a method, and keeps it for methodOf. The session's mutex is held.
func (n *lookup) Lookup(name string, number int) *machine.Method {
	var t *Target
	if find := n.env.cfg.Resolve; find != nil {
		t = find(name)
	}
	switch {
	case number < 0:
		n.unnumbered = &method{name: name, target: t}
	case number == len(n.methods):
		n.methods = machine.Extend(n.methods, n.firstMethod[:], &method{name: name, target: t})
	case n.methods[number].target != t:
		n.methods[number] = &method{name: name, target: t} // running calls use the old one
	}
	if t == nil {
		return nil
	}
	return &t.Method
}

// methodOfLocked returns the method of the request that has just arrived. number is that of its
// name, negative for none.
func (s *Session) methodOfLocked(number int32) *method {
	if number >= 0 {
		return s.methods[number]
	}
	m := s.unnumbered
	s.unnumbered = nil
	return m
}
