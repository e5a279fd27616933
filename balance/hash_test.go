package balance

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

func hashPolicies() []Policy { return []Policy{RingHash(), Maglev(), JumpHash()} }

// homes returns the node of each of that many keys.
func homes(p Picker, keys int, usable func(*Node) bool) []string {
	ids := make([]string, keys)
	call := new(tandem.Call)
	for i := range ids {
		call.HashKey = fmt.Sprint("key-", i)
		ids[i] = p.Pick(call, usable).Instance.ID
	}
	return ids
}

// moved returns how many keys have moved, and how many of them were and are on nodes that did
// not change.
func moved(before, after []string, gone string) (all, needless int) {
	for i := range before {
		if before[i] != after[i] {
			all++
			if before[i] != gone && after[i] != gone {
				needless++
			}
		}
	}
	return all, needless
}

// A key must have the same hash in every process and every version.
func TestHashesNeverChange(t *testing.T) {
	if got := mix(1); got != 0xb456bcfc34c2cb2c { // fmix64 of MurmurHash3
		t.Errorf("%#x", got)
	}
	for _, s := range []string{"", "a", "tandem"} {
		f := fnv.New64a()
		_, _ = f.Write([]byte(s))
		if got, want := hashOf(s), mix(f.Sum64()); got != want {
			t.Errorf("%q: %#x, want %#x", s, got, want)
		}
	}
	nodes := weighted(make([]int, 7)...)
	for policy, want := range map[Policy]string{
		RingHash(): "n3n1n3n4n4n1n0n6n3n3n6n2",
		Maglev():   "n4n3n0n1n6n0n2n3n6n4n5n1",
		JumpHash(): "n3n6n0n6n3n2n0n0n5n4n5n4",
	} {
		if got := strings.Join(homes(policy.Build(nodes), 12, all), ""); got != want {
			t.Errorf("%s: %s, want %s", policy.Name(), got, want)
		}
	}
}

// The paper's own property: a key moves to the new bucket or not at all.
func TestJump(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		key, before := random.Uint64(), 0
		for n := 1; n < 200; n++ {
			b := jump(key, n)
			if b != before && b != n-1 || b < 0 || b >= n {
				t.Fatalf("key %#x: bucket %d of %d after %d", key, b, n, before)
			}
			before = b
		}
	}
}

func TestHashIgnoresTheListsOrder(t *testing.T) {
	for _, p := range hashPolicies() {
		nodes := weighted(100, 200, 300, 100, 50)
		before := homes(p.Build(nodes), 2000, all)
		slices.Reverse(nodes)
		if n, _ := moved(before, homes(p.Build(nodes), 2000, all), ""); n != 0 {
			t.Errorf("%s: %d keys moved", p.Name(), n)
		}
	}
}

// When a node goes, its keys move, and very few others; when it comes back they are where they
// were.
func TestHashMovesLittle(t *testing.T) {
	const keys, count = 20_000, 20
	for _, tc := range []struct {
		policy   Policy
		gone     int
		needless int // keys that may move without need
	}{
		{RingHash(), 7, 0},
		{Maglev(), 7, keys * 3 / 100},
		{JumpHash(), count - 1, 0},
	} {
		nodes := weighted(make([]int, count)...)
		for i, n := range nodes {
			n.Instance.ID = fmt.Sprintf("n%02d", i)
		}
		before := homes(tc.policy.Build(nodes), keys, all)
		gone := nodes[tc.gone].Instance.ID
		without := slices.Delete(slices.Clone(nodes), tc.gone, tc.gone+1)
		n, needless := moved(before, homes(tc.policy.Build(without), keys, all), gone)
		if n > keys/count*3/2 || n < keys/count/2 || needless > tc.needless {
			t.Errorf("%s: %d of %d keys moved, %d of them in vain", tc.policy.Name(), n, keys, needless)
		}
		if n, _ := moved(before, homes(tc.policy.Build(nodes), keys, all), ""); n != 0 {
			t.Errorf("%s: %d keys did not come back", tc.policy.Name(), n)
		}
	}
}

// Keys are spread by weight.
func TestHashSpreadsKeys(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and many picks: made without the race detector")
	}
	const keys = 50_000
	for _, tc := range []struct {
		policy  Policy
		weights []int
		within  float64 // of its share, for each node
	}{
		{RingHash(), make([]int, 10), 0.3}, {RingHash(), []int{100, 200, 400, 800}, 0.3},
		{Maglev(), make([]int, 10), 0.05}, {Maglev(), []int{100, 200, 400, 800}, 0.05}, {Maglev(), make([]int, 700), 0.5},
		{JumpHash(), make([]int, 10), 0.05},
	} {
		nodes := weighted(tc.weights...)
		counts := map[string]int{}
		for _, id := range homes(tc.policy.Build(nodes), keys, all) {
			counts[id]++
		}
		for id, share := range shares(nodes, all) {
			if off := float64(counts[id])/(share*keys) - 1; math.Abs(off) > tc.within {
				t.Errorf("%s %v: %s has %+.0f %% of its share", tc.policy.Name(), tc.weights[:min(4, len(tc.weights))], id, 100*off)
			}
		}
	}
}

// While its node is unusable a key has one other node, and no other key moves.
func TestHashOfAnUnusableNode(t *testing.T) {
	for _, p := range hashPolicies() {
		picker := p.Build(weighted(make([]int, 10)...))
		usable := func(n *Node) bool { return n.Instance.ID != "n3" }
		before, without := homes(picker, 5000, all), homes(picker, 5000, usable)
		if _, needless := moved(before, without, "n3"); needless != 0 {
			t.Errorf("%s: %d keys of other nodes moved", p.Name(), needless)
		}
		if n, _ := moved(without, homes(picker, 5000, usable), ""); n != 0 {
			t.Errorf("%s: %d keys wander", p.Name(), n)
		}
		got := map[string]bool{}
		for i := range before {
			if before[i] == "n3" {
				got[without[i]] = true
			}
		}
		if len(got) < 5 {
			t.Errorf("%s: its keys all went to %v", p.Name(), got)
		}
	}
}

// When a hot key's node has too many calls in flight, other calls of the key go to all usable
// nodes; afterwards they come back.
func TestHashBoundsLoad(t *testing.T) {
	for _, p := range hashPolicies() {
		for usable, up := range map[int]func(*Node) bool{
			10: all,
			6:  func(n *Node) bool { return n.Instance.ID < "n6" },
		} {
			nodes := weighted(make([]int, 10)...)
			picker, call := p.Build(nodes), &tandem.Call{HashKey: "hot"}
			home := picker.Pick(call, up)
			for i := range 1000 {
				n := picker.Pick(call, up)
				n.Stats.Begin()
				if most := int64(math.Ceil(mostLoad * float64(i+1) / float64(usable))); n.Stats.InFlight() > most {
					t.Fatalf("%s: %d of %d calls on one of %d nodes, limit %d", p.Name(), n.Stats.InFlight(), i+1, usable, most)
				}
			}
			for _, n := range nodes {
				for n.Stats.InFlight() > 0 {
					n.Stats.Done(0, false)
				}
			}
			if n := picker.Pick(call, up); n != home {
				t.Errorf("%s: the key has moved from %s to %s", p.Name(), home.Instance.ID, n.Instance.ID)
			}
		}
	}
}

func TestHashedPickDoesNotAllocate(t *testing.T) {
	call := &tandem.Call{HashKey: "key"}
	for _, p := range hashPolicies() {
		picker := p.Build(weighted(1, 2, 3))
		for name, usable := range map[string]func(*Node) bool{"all": all, "none": func(*Node) bool { return false }} {
			if n := testing.AllocsPerRun(100, func() { picker.Pick(call, usable) }); n != 0 {
				t.Errorf("%s, %s usable: %v allocations", p.Name(), name, n)
			}
		}
	}
}
