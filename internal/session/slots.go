package session

import "github.com/tandem-rpc/tandem/wire"

// slotTable numbers the calls that this side has open. A slot stays taken
// until the peer has answered, even when the caller has left: so the peer
// never sees more calls than it allows, however fast they are cancelled.
type slotTable struct {
	slots      []slot
	free       []uint16
	generation uint64
	open       int
	limit      int
}

type slot struct {
	id wire.Stream // 0 when free
	p  *Pending    // nil when the caller has left
}

func (t *slotTable) full() bool { return t.open >= t.limit }

// take puts p into a free slot; the table must not be full.
func (t *slotTable) take(p *Pending) wire.Stream {
	var i uint16
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		i = uint16(len(t.slots)) //nolint:gosec // limit is at most 1<<16
		t.slots = append(t.slots, slot{})
	}
	t.generation++
	id := wire.MakeStream(i, t.generation)
	if id>>16 == 0 { // the generation wrapped round; 0 is kept for the connection
		t.generation++
		id = wire.MakeStream(i, t.generation)
	}
	t.slots[i] = slot{id, p}
	t.open++
	return id
}

// get returns the slot of an open call, or nil.
func (t *slotTable) get(id wire.Stream) *slot {
	if i := int(id.Index()); i < len(t.slots) && t.slots[i].id == id && id != 0 {
		return &t.slots[i]
	}
	return nil
}

func (t *slotTable) release(id wire.Stream) {
	if s := t.get(id); s != nil {
		*s = slot{}
		t.free = append(t.free, id.Index())
		t.open--
	}
}
