package balance

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// Keys stay with their instance while lists change, until the instance goes. Of 120 keys, five
// share a bucket of the memory, which has room for four, in 7e-7 of all runs, and none is on
// instance c in 1e-7.
func TestSticky(t *testing.T) {
	const keys = 120
	table := NewTable(Sticky(Random()))
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	table.Update(instances(ids...))
	_, p := table.Current()
	before := homes(p, keys, all)
	keyless := table.Pick(nil, all).Instance.ID
	table.Update(instances(append(ids, "new1", "new2")...))
	_, p = table.Current()
	for range 3 {
		if n, _ := moved(before, homes(p, keys, all), ""); n != 0 {
			t.Errorf("%d of %d keys moved", n, keys)
		}
		if id := table.Pick(new(tandem.Call), all).Instance.ID; id != keyless {
			t.Errorf("calls without a key moved from %s to %s", keyless, id)
		}
	}
	up := func(n *Node) bool { return n.Instance.ID != "c" }
	elsewhere := homes(p, keys, up)
	if n, needless := moved(before, elsewhere, "c"); n == 0 || needless != 0 {
		t.Errorf("%d keys moved, %d of them in vain", n, needless)
	}
	if n, _ := moved(elsewhere, homes(p, keys, all), ""); n != 0 {
		t.Errorf("%d keys went back", n)
	}
	spread := map[string]bool{}
	for _, id := range elsewhere {
		spread[id] = true
	}
	if len(spread) < 6 {
		t.Errorf("all keys are on %v", spread)
	}
}

// Calls that name or exclude instances move no keys.
func TestStickyIgnoresExceptions(t *testing.T) {
	p := Sticky(RoundRobin()).Build(weighted(0, 0, 0))
	home := p.Pick(nil, all)
	for range 10 {
		p.Pick(&tandem.Call{Pin: "x"}, func(n *Node) bool { return n != home })
		p.Pick(&tandem.Call{Exclude: []string{home.Instance.ID}}, func(n *Node) bool { return n != home })
		if n := p.Pick(nil, all); n != home {
			t.Fatalf("moved from %s to %s", home.Instance.ID, n.Instance.ID)
		}
	}
}

// Each client has a memory of its own, though they share the policy.
func TestStickyIsPerClient(t *testing.T) {
	policy := Route(Zone("", SlowStart(1, Closest(berlin, Subset(100, "", Aperture(0, 1, 1, Sticky(Random())))))))
	used := map[string]bool{}
	for range 50 {
		table := NewTable(policy)
		table.Update(instances("a", "b", "c", "d"))
		used[table.Pick(nil, all).Instance.ID] = true
	}
	if len(used) < 3 { // 50 draws of four: 5e-15
		t.Errorf("50 clients stay with %v", used)
	}
}

// Each route has its own choices.
func TestStickyInRoutes(t *testing.T) {
	p := Route(Sticky(RoundRobin())).Build(tagged("a version=1", "b version=1", "c version=2", "d version=2"))
	homes := map[string]string{}
	for range 20 {
		for _, version := range []string{"", "1", "2"} {
			call := &tandem.Call{HashKey: "k"}
			if version != "" {
				call.Route = &tandem.Route{Version: version}
			}
			id := p.Pick(call, all).Instance.ID
			if homes[version] == "" {
				homes[version] = id
			}
			if id != homes[version] {
				t.Fatalf("version %q moved from %s to %s", version, homes[version], id)
			}
		}
	}
}

// The number of remembered keys is bounded.
func TestStickyIsBounded(t *testing.T) {
	p := Sticky(Random()).Build(weighted(0, 0)).(*stickyPicker)
	homes(p, 100_000, all)
	n := 0
	for i := range p.memory.buckets.Load() {
		for j := range p.memory.buckets.Load()[i] {
			if p.memory.buckets.Load()[i][j].Load() != nil {
				n++
			}
		}
	}
	if n < 16_000 || n > 16_384 {
		t.Errorf("%d keys are remembered", n)
	}
	before := homes(p, 2000, all) // the latest ones, most of which fit
	if m, _ := moved(before, homes(p, 2000, all), ""); m > 200 {
		t.Errorf("%d of the latest 2000 keys moved", m)
	}
}

func TestStickyConcurrently(t *testing.T) {
	p := Sticky(Random()).Build(weighted(0, 0, 0, 0))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 5000 {
				if p.Pick(&tandem.Call{HashKey: fmt.Sprint(i % 100)}, all) == nil {
					t.Error("no node picked")
				}
			}
		})
	}
	wg.Wait()
	before := homes(p, 100, all)
	if n, _ := moved(before, homes(p, 100, all), ""); n != 0 {
		t.Errorf("%d keys wander", n)
	}
}

func TestStickyPickDoesNotAllocate(t *testing.T) {
	p := Sticky(Random()).Build(weighted(0, 0, 0))
	for _, call := range []*tandem.Call{{}, {HashKey: "key"}} {
		p.Pick(call, all)
		if n := testing.AllocsPerRun(100, func() { p.Pick(call, all) }); n != 0 {
			t.Errorf("key %q: %v allocations", call.HashKey, n)
		}
	}
}
