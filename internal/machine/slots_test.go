package machine

import (
	"math/rand/v2"
	"testing"

	"github.com/tandem-rpc/tandem/wire"
)

// With random calls, each is found by its own number while it is open and by no other, and
// there are no more slots than calls were ever open at a time.
func TestSlotTable(t *testing.T) {
	const limit = 5
	table, random := slotTable{limit: limit}, rand.New(rand.NewPCG(1, 2))
	open, gone := map[wire.Stream]*Call{}, []wire.Stream{0, 1, limit}
	most := 0
	for range 2000 {
		if table.full() != (len(open) == limit) {
			t.Fatalf("full is %v with %d of %d calls", table.full(), len(open), limit)
		}
		if !table.full() && random.IntN(2) == 0 {
			p := new(Call)
			id := table.take(p)
			if open[id] != nil || id>>16 == 0 {
				t.Fatalf("%#x for a new call", id)
			}
			open[id] = p
		} else {
			for id := range open { // any
				table.release(id)
				delete(open, id)
				gone = append(gone, id)
				break
			}
		}
		most = max(most, len(open))
		if len(table.slots) != most || table.open != len(open) {
			t.Fatalf("%d places and %d calls, want %d and %d", len(table.slots), table.open, most, len(open))
		}
		for id, p := range open {
			if s := table.get(id); s == nil || s.p != p {
				t.Fatalf("call %#x has %+v", id, s)
			}
		}
		for _, id := range gone {
			if s := table.get(id); s != nil {
				t.Fatalf("call %#x, which is over, has %+v", id, s)
			}
		}
	}
	if table.first[0] != (slot{}) {
		t.Errorf("the first place still has %+v, and the list is elsewhere", table.first[0])
	}
}

// A free slot is found by no number that a peer may send, not even if it is linked to the
// last slot that a table can have: release would free it twice.
func TestFreeSlotsHaveNoNumber(t *testing.T) {
	table := slotTable{limit: wire.MaxOpenLimit}
	var all []wire.Stream
	for !table.full() {
		all = append(all, table.take(new(Call)))
	}
	table.release(all[len(all)-1])
	table.release(all[0])
	for id := range wire.Stream(4 * wire.MaxOpenLimit) {
		if s := table.get(id); s != nil && s.p == nil {
			t.Fatalf("number %#x finds a free place, %+v", id, s)
		}
	}
}

// The first element is in the owner's array until there is a second.
func TestExtend(t *testing.T) {
	var first [1]int
	list := Extend(nil, first[:], 7)
	if &list[0] != &first[0] || first[0] != 7 {
		t.Fatalf("%v is not in %v", list, first)
	}
	list = Extend(list, first[:], 8)
	list = Extend(list, first[:], 9)
	if len(list) != 3 || list[0] != 7 || list[2] != 9 || first[0] != 0 {
		t.Errorf("%v, and %v is left", list, first)
	}
}
