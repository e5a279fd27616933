package balance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// tagged returns nodes with the IDs and tags that are given as "id key=value …";
// "version" and "group" are not tags.
func tagged(list ...string) []*Node {
	nodes := make([]*Node, len(list))
	for i, text := range list {
		id, tags, _ := strings.Cut(text, " ")
		in := tandem.Instance{ID: id, Tags: map[string]string{}}
		for pair := range strings.FieldsSeq(tags) {
			switch key, value, _ := strings.Cut(pair, "="); key {
			case "version":
				in.Version = value
			case "group":
				in.Group = value
			default:
				in.Tags[key] = value
			}
		}
		nodes[i] = &Node{Instance: in, Stats: new(Stats)}
	}
	return nodes
}

// whoGets returns the IDs of the nodes that get the calls, in order.
func whoGets(p Picker, call *tandem.Call, usable func(*Node) bool) string {
	ids := map[string]bool{}
	for range 200 {
		if n := p.Pick(call, usable); n != nil {
			ids[n.Instance.ID] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(ids)), " ")
}

func tags(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestRoute(t *testing.T) {
	nodes := tagged(
		"a version=1", "b version=2 group=x", "c version=2 group=y gpu=yes", "d gpu=no",
		"blue version=2 lane=blue", "green lane=green", "night shift=night",
	)
	up := func(down ...string) func(*Node) bool {
		return func(n *Node) bool { return !slices.Contains(down, n.Instance.ID) }
	}
	for _, tc := range []struct {
		name   string
		route  *tandem.Route
		usable func(*Node) bool
		want   string
	}{
		{"a call without a route goes to no reserved instance", nil, all, "a b c d"},
		{"nor does one whose route wants nothing", &tandem.Route{}, all, "a b c d"},
		{"version", &tandem.Route{Version: "2"}, all, "b c"},
		{"version and group", &tandem.Route{Version: "2", Group: "y"}, all, "c"},
		{"group that no node has", &tandem.Route{Group: "z"}, all, ""},
		{"version that is not usable", &tandem.Route{Version: "1"}, up("a"), ""},
		{"tag", &tandem.Route{Tags: tags("gpu", "yes")}, all, "c"},
		{"tag that is not usable: those without the key", &tandem.Route{Tags: tags("gpu", "yes")}, up("c"), "a b"},
		{"tag that is not usable, forced", &tandem.Route{Tags: tags("gpu", "yes"), Force: true}, up("c"), ""},
		{"lane", &tandem.Route{Tags: tags("lane", "blue")}, all, "blue"},
		{"lane that no node has", &tandem.Route{Tags: tags("lane", "red")}, all, "a b c d"},
		{"lane that no node has, forced", &tandem.Route{Tags: tags("lane", "red"), Force: true}, all, ""},
		{"lane that is not usable: never another one", &tandem.Route{Tags: tags("lane", "blue")}, up("blue"), "a b c d"},
		{"lane and version", &tandem.Route{Version: "1", Tags: tags("lane", "blue")}, all, "a"},
		{"lane and tag, and no instance has both", &tandem.Route{Tags: tags("lane", "blue", "gpu", "yes")}, all, "a b blue c"},
		{"a reserved key of one's own", &tandem.Route{Tags: tags("shift", "night")}, all, "night"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			call := &tandem.Call{Route: tc.route}
			if got := whoGets(Route(Random(), "shift").Build(nodes), call, tc.usable); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			crowded := Route(Random(), "shift").Build(nodes)
			for i := range 2 * maxRoutes { // now there is no room for pickers of this route
				crowded.Pick(&tandem.Call{Route: &tandem.Route{Version: fmt.Sprint("v", i)}}, all)
			}
			if got := whoGets(crowded, call, tc.usable); got != tc.want {
				t.Errorf("among many routes: %q, want %q", got, tc.want)
			}
		})
	}
}

// A call that names an instance gets it, reserved or not, if it is usable.
func TestPinnedCallNeedsNoRoute(t *testing.T) {
	p := Route(P2C()).Build(tagged("a", "b lane=blue", "c"))
	call := &tandem.Call{Pin: "b", Route: &tandem.Route{Version: "9"}}
	if got := whoGets(p, call, func(n *Node) bool { return n.Instance.ID == "b" }); got != "b" {
		t.Errorf("%q", got)
	}
	if n := p.Pick(call, func(*Node) bool { return false }); n != nil {
		t.Errorf("%s is not usable", n.Instance.ID)
	}
	var e Explanation
	p.(Explainer).Explain(call, all, &e)
	if !slices.Equal(e.Steps[0].Kept, []string{"b"}) {
		t.Errorf("%+v", e)
	}
}

// built is a policy that counts its pickers.
type built struct {
	Policy
	count *int
}

func (b built) Build(nodes []*Node) Picker {
	*b.count++
	return b.Policy.Build(nodes)
}

// Equal routes share a picker, and the number of pickers is bounded.
func TestRoutesAreBounded(t *testing.T) {
	count := 0
	p := Route(built{Random(), &count}).Build(tagged("a version=1", "b version=2"))
	for range 100 {
		p.Pick(&tandem.Call{Route: &tandem.Route{Version: "2", Tags: tags("x", "1", "y", "2")}}, all)
	}
	if count != 3 { // without a route, with it, with it and without the tags
		t.Errorf("%d pickers for one route", count)
	}
	for i := range 10_000 {
		p.Pick(&tandem.Call{Route: &tandem.Route{Version: fmt.Sprint(i), Force: true}}, all)
	}
	if most := 3 + maxRoutes + 1; count > most {
		t.Errorf("%d pickers, want %d at most", count, most)
	}
}

// A route that its caller changes afterwards is another route.
func TestRouteIsCopied(t *testing.T) {
	count := 0
	p := Route(built{Random(), &count}).Build(tagged("a x=1", "b x=2"))
	r := &tandem.Route{Tags: tags("x", "1")}
	p.Pick(&tandem.Call{Route: r}, all)
	r.Tags["x"] = "2"
	if got := whoGets(p, &tandem.Call{Route: r}, all); got != "b" {
		t.Errorf("goes to %s", got)
	}
	if got := whoGets(p, &tandem.Call{Route: &tandem.Route{Tags: tags("x", "1")}}, all); got != "a" {
		t.Errorf("goes to %s", got)
	}
	if count != 5 { // one for no route, two for each: nothing is built again or for the whole list
		t.Errorf("%d pickers", count)
	}
}

func TestRoutesConcurrently(t *testing.T) {
	p := Route(RoundRobin()).Build(tagged("a version=0", "b version=1", "c version=2"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2000 {
				version := fmt.Sprint(i % 100)
				n := p.Pick(&tandem.Call{Route: &tandem.Route{Version: version}}, all)
				if (n == nil) != (i%100 > 2) || n != nil && n.Instance.Version != version {
					t.Errorf("version %s goes to %v", version, n)
				}
			}
		})
	}
	wg.Wait()
}

func TestRoutedPickDoesNotAllocate(t *testing.T) {
	p := Route(Random()).Build(tagged("a version=1", "b version=1 x=1"))
	call := &tandem.Call{Route: &tandem.Route{Version: "1", Tags: tags("x", "1", "y", "1")}}
	if n := testing.AllocsPerRun(100, func() { p.Pick(call, all) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Common instances and those of each lane are narrowed separately.
func TestRouteNarrows(t *testing.T) {
	var list []tandem.Instance
	for i := range 30 {
		in := tandem.Instance{ID: fmt.Sprint("n", i), Tags: map[string]string{"rack": fmt.Sprint(i)}}
		if i < 9 {
			in.Tags["lane"] = []string{"blue", "green", "red"}[i%3]
		}
		list = append(list, in)
	}
	counts := map[string]int{}
	for _, in := range Route(Subset(2, "me", P2C())).Needs().Narrow(list) {
		counts[in.Tags["lane"]]++
	}
	if !maps.Equal(counts, map[string]int{"": 2, "blue": 2, "green": 2, "red": 2}) {
		t.Errorf("%v", counts)
	}
	if Route(P2C()).Needs().Narrow != nil {
		t.Error("without a policy that narrows, instances are left out")
	}
}
