package balance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// zones returns that many nodes in each zone, with IDs like "a0".
func zones(counts ...int) (nodes []*Node) {
	for z, count := range counts {
		for i := range count {
			name := string(rune('a' + z))
			in := tandem.Instance{ID: fmt.Sprint(name, i), Zone: name}
			nodes = append(nodes, &Node{Instance: in, Stats: new(Stats)})
		}
	}
	return nodes
}

// byZone sums up counts of nodes of zones.
func byZone(counts map[string]int) map[string]int {
	sums := map[string]int{}
	for id, n := range counts {
		sums[id[:1]] += n
	}
	return sums
}

// Calls stay in zone a, up to its capacity.
func TestZone(t *testing.T) {
	down := func(ids string) func(*Node) bool {
		return func(n *Node) bool { return !slices.Contains(strings.Fields(ids), n.Instance.ID) }
	}
	for _, tc := range []struct {
		name   string
		nodes  []*Node
		usable func(*Node) bool
		want   map[string]float64
	}{
		{"even zones", zones(10, 10, 10), all, map[string]float64{"a": 1}},
		{"more capacity than callers", zones(10, 1), all, map[string]float64{"a": 1}},
		{"half of the capacity that the callers need", zones(10, 30), all, map[string]float64{"a": 0.5, "b": 0.5}},
		{"what is more goes where there is more: 1/30 and 7/30", zones(2, 11, 17), all, map[string]float64{"a": 0.2, "b": 0.1, "c": 0.7}},
		{"and not where there is less", zones(6, 8, 16), all, map[string]float64{"a": 0.6, "c": 0.4}},
		{"eight of ten usable are enough", zones(10, 10), down("a0 a1"), map[string]float64{"a": 1}},
		{"three of ten are not", zones(10, 10), down("a0 a1 a2 a3 a4 a5 a6"), map[string]float64{"a": 3. / 7, "b": 4. / 7}},
		{"which leave evenly", zones(10, 10, 10, 10, 10, 10, 10), down("a0 a1 a2 a3 a4 a5 a6"), map[string]float64{
			"a": 3. / 7, "b": 4. / 42, "c": 4. / 42, "d": 4. / 42, "e": 4. / 42, "f": 4. / 42, "g": 4. / 42,
		}},
		{"none usable", zones(2, 3, 5), down("a0 a1"), map[string]float64{"b": 0, "c": 1}},
		{"none usable but in a zone that has few", zones(2, 1, 2), down("a0 a1 c0 c1"), map[string]float64{"b": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := Zone("a", Random()).Build(tc.nodes)
			count(p, 1000, tc.usable) // it counts the usable nodes
			share := map[string]float64{}
			for zone, s := range tc.want {
				if s > 0 {
					share[zone] = s
				}
			}
			fits(t, byZone(count(p, 20_000, tc.usable)), share)
		})
	}
}

// If the zone is unknown, all nodes get calls.
func TestUnknownZone(t *testing.T) {
	nodes := zones(3, 3)
	for _, zone := range []string{"", "nowhere"} {
		fits(t, byZone(count(Zone(zone, Random()).Build(nodes), 10_000, all)), map[string]float64{"a": 0.5, "b": 0.5})
	}
	nodes[0].Instance.Zone = "" // an instance without a zone is not in the client's
	if n := count(Zone("", Random()).Build(nodes), 10_000, all); n["a0"] == 10_000 {
		t.Error("all calls go to the instance without a zone")
	}
}

// A call that names its instance does not change what is known of the others' health.
func TestZoneIsNotMisledByPins(t *testing.T) {
	p := Zone("a", Random()).Build(zones(10, 10))
	for range 1000 {
		want := "b3"
		n := p.Pick(&tandem.Call{Pin: want}, func(n *Node) bool { return n.Instance.ID == want })
		if n == nil || n.Instance.ID != want {
			t.Fatal("the pinned one is not found")
		}
	}
	if got := byZone(count(p, 1000, all)); got["b"] != 0 {
		t.Errorf("%v", got)
	}
}

// Weights count as capacity.
func TestZoneByWeight(t *testing.T) {
	nodes := zones(1, 1)
	nodes[1].Instance.Weight = 300
	fits(t, byZone(count(Zone("a", P2C()).Build(nodes), 20_000, all)), map[string]float64{"a": 0.5, "b": 0.5})
}

func TestZoneNarrows(t *testing.T) {
	var list []tandem.Instance
	for _, n := range zones(10, 20) {
		list = append(list, n.Instance)
	}
	counts := map[string]int{}
	for _, in := range Zone("a", Subset(3, "me", P2C())).Needs().Narrow(list) {
		counts[in.Zone]++
	}
	if counts["a"] != 3 || counts["b"] != 3 {
		t.Errorf("%v", counts)
	}
	if n := len(Zone("x", Subset(3, "me", P2C())).Needs().Narrow(list)); n != 3 {
		t.Errorf("%d left in an unknown zone", n)
	}
}

// With many zones a client connects to a part of its own and to one of all others, and its calls
// find the others when its zone is lost.
func TestZoneNarrowsManyZones(t *testing.T) {
	var list []tandem.Instance
	nodes := map[string]*Node{}
	for z := range 50 {
		for i := range 20 {
			in := tandem.Instance{ID: fmt.Sprintf("z%d-%d", z, i), Zone: fmt.Sprint("z", z)}
			list = append(list, in)
			nodes[in.ID] = &Node{Instance: in, Stats: new(Stats)}
		}
	}
	connected, local := map[*Node]bool{}, 0
	policy := Zone("z7", Subset(5, "me", P2C()))
	for _, in := range policy.Needs().Narrow(list) {
		connected[nodes[in.ID]] = true
		if in.Zone == "z7" {
			local++
		}
	}
	if len(connected) != 10 || local != 5 {
		t.Fatalf("%d connections, %d of them local, want 10 and 5", len(connected), local)
	}
	var all []*Node
	for _, in := range list {
		all = append(all, nodes[in.ID])
	}
	picker := policy.Build(all)
	got := count(picker, 10_000, func(n *Node) bool { return connected[n] && n.Instance.Zone != "z7" })
	if len(got) != 5 {
		t.Errorf("without its zone, calls go to %d of 5 connected instances", len(got))
	}
	for id, n := range got {
		if n < 200 {
			t.Errorf("%s got %d of 10,000 calls", id, n)
		}
	}
}
