package machine

import (
	"slices"
	"testing"

	"github.com/tandem-rpc/tandem/wire"
)

// pumped returns the messages of which blocks are sent, in that many rounds of writing.
func pumped(t *testing.T, m *Machine, rounds int) (ids []wire.Stream) {
	t.Helper()
	for range rounds {
		b := m.Take()
		if b == nil {
			return ids
		}
		for _, h := range headers(t, b.B) {
			ids = append(ids, h.Stream)
		}
	}
	return ids
}

func addBulk(m *Machine, id wire.Stream, blocks int, credit int64) {
	m.ring.add(&bulk{id: id, data: make([]byte, blocks*wire.MaxBlock), credit: credit})
}

func TestBlocksTakeTurns(t *testing.T) {
	const a, b, c, plenty = wire.Stream(1 << 16), wire.Stream(1<<16 + 1), wire.Stream(1<<16 + 2), 1 << 30
	for name, test := range map[string]struct {
		fill func(m *Machine)
		want []wire.Stream
	}{
		"two": {func(m *Machine) {
			addBulk(m, a, 4, plenty)
			addBulk(m, b, 4, plenty)
		}, []wire.Stream{a, b, a, b, a, b, a, b}},
		"three": {func(m *Machine) {
			addBulk(m, a, 3, plenty)
			addBulk(m, b, 2, plenty)
			addBulk(m, c, 2, plenty)
		}, []wire.Stream{a, b, c, a, b, c, a}},
		"the first without credit": {func(m *Machine) {
			addBulk(m, a, 2, 0)
			addBulk(m, b, 2, plenty)
			addBulk(m, c, 2, plenty)
		}, []wire.Stream{b, c, b, c}},
		"one that ends early": {func(m *Machine) {
			addBulk(m, a, 1, plenty)
			addBulk(m, b, 3, plenty)
			addBulk(m, c, 3, plenty)
		}, []wire.Stream{a, b, c, b, c, b, c}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(nil)
			m.served = make([]*Request, 3)
			test.fill(m)
			for _, x := range m.ring.list {
				x.in = &Request{}
			}
			if got := pumped(t, m, 10); !slices.Equal(got, test.want) {
				t.Errorf("blocks of %v, want %v", got, test.want)
			}
		})
	}
}

// The message whose turn is next stays next when one before it is removed.
func TestTurnsSurviveARemoval(t *testing.T) {
	m := newMachine(nil)
	m.served = make([]*Request, 3)
	for i := range uint16(3) {
		addBulk(m, wire.MakeStream(i, 1), 3, 1<<30)
	}
	first := m.ring.list[0]
	got := pumped(t, m, 1) // two blocks: the third message is next
	m.ring.remove(first)
	got = append(got, pumped(t, m, 1)...)
	turns := make([]uint16, len(got))
	for i, id := range got {
		turns[i] = id.Index()
	}
	if want := []uint16{0, 1, 2, 1}; !slices.Equal(turns, want) {
		t.Errorf("blocks of %v, want %v", turns, want)
	}
}
