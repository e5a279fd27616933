package session

import (
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/wire"
)

// sentNames numbers the method names that this side has sent. A number is
// given when the request's head is appended; an appended head is never
// dropped, so both sides count alike.
type sentNames struct {
	last   string // the last method: most likely the next one, too
	number int    // the number of last
	all    *nameTable
}

// nameTable is allocated apart from its session, as a call of the last method does not need it.
type nameTable struct {
	list    []string       // by number
	bytes   int            // total bytes of the names
	numbers map[string]int // number by name; nil while there are few names
}

// few is the number of names up to which a search of the list is faster than the map.
const few = 8

func (n *sentNames) reference(method string) wire.Name {
	if method == n.last {
		return wire.Name{Number: n.number}
	}
	if n.all == nil {
		n.all = new(nameTable)
	}
	if i := n.all.find(method); i >= 0 {
		n.last, n.number = method, i
		return wire.Name{Number: i}
	}
	return wire.Name{Text: []byte(method), Define: n.all.add(method)}
}

// find returns the number of a name, -1 if it has none.
func (t *nameTable) find(name string) int {
	if t.numbers == nil {
		return slices.Index(t.list, name)
	}
	if i, ok := t.numbers[name]; ok {
		return i
	}
	return -1
}

// add gives a name the next number; false when there are too many.
func (t *nameTable) add(name string) bool {
	if len(t.list) == wire.MaxNames || t.bytes+len(name) > wire.MaxNameBytes {
		return false
	}
	t.list = append(t.list, name)
	t.bytes += len(name)
	if len(t.list) <= few {
		return true
	}
	if t.numbers == nil {
		t.numbers = make(map[string]int)
	}
	for i := len(t.numbers); i < len(t.list); i++ {
		t.numbers[t.list[i]] = i
	}
	return true
}

// receivedNames are the names that the peer has defined, by number.
type receivedNames struct {
	list  []*method
	first [1]*method // the memory of list while that has one element
	bytes int        // total bytes of the names
}

// method is a name and its Target, which a connection looks up once. A method that
// does not exist is looked up again: it may be registered later.
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

func (n *receivedNames) resolve(w wire.Name, find func(string) *Target) (*method, error) {
	if w.Text == nil {
		if w.Number >= len(n.list) {
			return nil, violationf("method name number %d of %d", w.Number, len(n.list))
		}
		e := n.list[w.Number]
		if e.target != nil && !e.target.Absent {
			return e, nil
		}
		if found := lookup(find, e.name); found != e.target {
			e = &method{name: e.name, target: found} // running calls use the old one
			n.list[w.Number] = e
		}
		return e, nil
	}
	e := &method{name: string(w.Text)}
	e.target = lookup(find, e.name)
	if w.Define {
		n.bytes += len(e.name)
		if len(n.list) >= wire.MaxNames || n.bytes > wire.MaxNameBytes {
			return nil, violationf("more than %d method names or %d bytes of them", wire.MaxNames, wire.MaxNameBytes)
		}
		n.list = extend(n.list, n.first[:], e)
	}
	return e, nil
}

func lookup(find func(string) *Target, name string) *Target {
	if find == nil {
		return nil
	}
	return find(name)
}
