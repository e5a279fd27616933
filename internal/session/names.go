package session

import "github.com/tandem-rpc/tandem/wire"

// sentNames numbers the method names that this side has sent. A number is
// given when the request's head is appended; an appended head is never
// dropped, so both sides count alike.
type sentNames struct {
	last    string // method that was asked for, most likely the next one, too
	number  int32  // of last
	bytes   int32
	numbers map[string]int32
}

func (n *sentNames) reference(method string) wire.Name {
	if method == n.last {
		return wire.Name{Number: int(n.number)}
	}
	if i, ok := n.numbers[method]; ok {
		n.last, n.number = method, i
		return wire.Name{Number: int(i)}
	}
	name := wire.Name{Text: []byte(method)}
	if len(n.numbers) < wire.MaxNames && int(n.bytes)+len(method) <= wire.MaxNameBytes {
		if n.numbers == nil {
			n.numbers = map[string]int32{}
		}
		n.numbers[method] = int32(len(n.numbers)) //nolint:gosec // at most MaxNames
		n.bytes += int32(len(method))             //nolint:gosec // at most MaxNameBytes
		name.Define = true
	}
	return name
}

// receivedNames are the names that the peer has defined, by number.
type receivedNames struct {
	list  []*method
	bytes int
}

// method is a name with what was found for it, so that a connection looks it
// up once. What does not exist is looked up again: it may be registered later.
type method struct {
	name   string
	target *Target

	// Owned by whoever has the reader's turn.
	runs     uint64 // in the reader
	relieved uint64 // how many there were when it last held up the reader
}

// heldUp notes that a run takes long. Once in very many runs that says more
// about a busy machine than about the method.
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
			e = &method{name: e.name, target: found} // calls that run have the other
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
		n.list = append(n.list, e)
	}
	return e, nil
}

func lookup(find func(string) *Target, name string) *Target {
	if find == nil {
		return nil
	}
	return find(name)
}
