package overload

import (
	"testing"
	"time"
)

// A handler that waits for memory gives its slot to a request that waits, once and for good.
func TestParkedHandlersHoldNoSlot(t *testing.T) {
	g := New(Config{Processors: 1})
	m := g.Method(0)
	for range 20 {
		g.Sample(Load{Runnable: 100, Wait: time.Second, Timeout: time.Second}, 0)
	}
	ask := func() Verdict {
		v, _ := g.Ask(&Request{Method: m, Class: Normal, Deadline: int64(time.Minute)}, 0)
		return v
	}
	if !g.Guarding() || ask() != Run || ask() != Wait {
		t.Fatalf("%+v", g.State())
	}
	var slot Slot
	if n := slot.Park(g, 0); len(n.Run) != 1 {
		t.Fatalf("%d requests began when a handler was parked", len(n.Run))
	}
	if ask() != Wait {
		t.Fatalf("%+v", g.State())
	}
	if n := slot.Park(g, 0); len(n.Run) != 0 {
		t.Error("a slot was given up twice")
	}
	for want, slot := range []*Slot{&slot, new(Slot)} { // the second is that of the request that waited
		h := m.Begin(nil, 0, 0)
		h.Parked = slot.End()
		if n := g.Done(&h, 0); len(n.Run) != want {
			t.Errorf("%d requests began, want %d", len(n.Run), want)
		}
		if n := slot.Park(g, 0); len(n.Run) != 0 || g.State().Running != 1 {
			t.Errorf("the slot of a handler that has ended was given up: %+v", g.State())
		}
	}
}
