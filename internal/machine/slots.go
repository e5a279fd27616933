package machine

import "github.com/tandem-rpc/tandem/wire"

// slotTable numbers the calls that this side has open. A slot stays taken until the
// peer has answered, even when the caller has given up the call: so the peer never
// sees more calls than it allows, however fast they are canceled.
type slotTable struct {
	slots      []slot
	first      [1]slot // the memory of slots while that has one element
	generation uint64
	open       int
	limit      int32
	free       int32 // index of the slot that was freed last, plus 1; 0 for none
}

// freeSlot marks the id of a free slot; its other bits are the previous value of
// slotTable.free. No number that a peer can send has this bit: numbers in frames have 56 bits.
const freeSlot wire.Stream = 1 << 63

// slot is free, or holds an open call, whose caller may have given it up.
type slot struct {
	id      wire.Stream
	ordinal uint64 // of the call
	p       *Call  // nil if the slot is free or the caller has given up the call
}

// givenUp reports whether the slot holds a call that its caller has given up.
func (s *slot) givenUp() bool { return s.p == nil && s.id&freeSlot == 0 }

func (t *slotTable) full() bool { return t.open >= int(t.limit) }

// take puts p into a free slot; the table must not be full.
func (t *slotTable) take(p *Call) wire.Stream {
	if t.free == 0 {
		t.slots = Extend(t.slots, t.first[:], slot{})
		t.free = int32(len(t.slots)) //nolint:gosec // limit is at most 1<<16
	}
	i := t.free - 1
	t.free = int32(t.slots[i].id &^ freeSlot) //nolint:gosec // a place
	t.generation++
	id := wire.MakeStream(uint16(i), t.generation) //nolint:gosec // likewise
	if id>>16 == 0 {                               // the generation wrapped round; 0 is kept for the connection
		t.generation++
		id = wire.MakeStream(uint16(i), t.generation) //nolint:gosec // likewise
	}
	t.slots[i] = slot{id, p.Ordinal, p}
	t.open++
	return id
}

// Extend appends to a list whose first elements are in the array first, within the list's
// owner: few connections have more than one call at a time, and a list elsewhere would be
// one more cache line for each.
func Extend[T any](list, first []T, x T) []T {
	if list == nil {
		list = first[:0]
	}
	moves := len(list) == len(first)
	list = append(list, x)
	if moves {
		clear(first)
	}
	return list
}

// get returns the slot of an open call, or nil.
func (t *slotTable) get(id wire.Stream) *slot {
	if i := int(id.Index()); i < len(t.slots) && t.slots[i].id == id {
		return &t.slots[i]
	}
	return nil
}

func (t *slotTable) release(id wire.Stream) {
	if s := t.get(id); s != nil {
		*s = slot{id: freeSlot | wire.Stream(t.free)} //nolint:gosec // not negative
		t.free = int32(id.Index()) + 1
		t.open--
	}
}
