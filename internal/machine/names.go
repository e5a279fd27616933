package machine

import (
	"slices"

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
	list  []received
	first [1]received // the memory of list while that has one element
	bytes int         // total bytes of the names
}

// received is a name that the peer has sent. A method that does not exist is looked up again: it
// may be registered later.
type received struct {
	name   string
	method *Method
}

// resolve finds the method that a request names.
func (m *Machine) resolve(c *Incoming, w wire.Name) error {
	n, in := &m.names, c.Request
	if w.Text == nil {
		if w.Number >= len(n.list) {
			return violationf("method name number %d of %d", w.Number, len(n.list))
		}
		e := &n.list[w.Number]
		if e.method == nil || e.method.Absent {
			e.method = m.lookup(e.name, w.Number)
		}
		in.Name, c.Method, c.Number = e.name, e.method, int32(w.Number) //nolint:gosec // at most MaxNames
		return nil
	}
	in.Name, c.Number = string(w.Text), -1
	if !w.Define {
		c.Method = m.lookup(in.Name, -1)
		return nil
	}
	n.bytes += len(in.Name)
	if len(n.list) >= wire.MaxNames || n.bytes > wire.MaxNameBytes {
		return violationf("more than %d method names or %d bytes of them", wire.MaxNames, wire.MaxNameBytes)
	}
	c.Number = int32(len(n.list)) //nolint:gosec // at most MaxNames
	c.Method = m.lookup(in.Name, len(n.list))
	n.list = Extend(n.list, n.first[:], received{in.Name, c.Method})
	return nil
}

func (m *Machine) lookup(name string, number int) *Method {
	if m.Names == nil {
		return nil
	}
	return m.Names.Lookup(name, number)
}
