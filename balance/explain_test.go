package balance

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Every policy explains itself, and agrees with its picks: a node that gets calls was kept by
// the last step.
func TestEveryPolicyExplains(t *testing.T) {
	list := instances("a", "b", "c", "d", "e", "f")
	for i := range list {
		list[i].Zone, list[i].Version = "east", "2"
		list[i].Position = &tandem.Position{Latitude: 50, Longitude: 10}
	}
	list[0].Version, list[1].Zone, list[2].Position = "1", "west", nil
	usable := func(n *Node) bool { return n.Instance.ID != "d" }
	call := &tandem.Call{Route: &tandem.Route{Version: "2"}, HashKey: "k"}
	wrapped := Route(Sticky(SlowStart(time.Hour, Subset(100, "me", Aperture(0, 1, 3, Zone("east", Closest(berlin, LeastLoaded())))))))
	for _, p := range append(policies(), wrapped, Zone("east", Maglev()), Closest(berlin, LeastReported()), Sticky(P2C())) {
		table := NewTable(p)
		table.Update(list)
		e := table.Explain(call, usable)
		if len(e.Steps) == 0 || len(e.Steps) < strings.Count(p.Name(), "(") {
			t.Errorf("%s has %d steps", p.Name(), len(e.Steps))
			continue
		}
		last := e.Steps[len(e.Steps)-1]
		if last.Scores == nil {
			t.Errorf("%s: no scores in the last step: %+v", p.Name(), last)
		}
		_, picker := table.Current()
		for id := range strings.FieldsSeq(whoGets(picker, call, usable)) {
			if !slices.ContainsFunc(e.Steps, func(s Step) bool { return s.Scores != nil && slices.Contains(s.Kept, id) }) || e.Dropped()[id] != "" {
				t.Errorf("%s: %s gets calls, but the steps are %+v", p.Name(), id, e.Steps)
			}
		}
		if e.Dropped()["d"] == "" {
			t.Errorf("%s: d is not usable, and no step says so", p.Name())
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("%s: %v", p.Name(), err)
		}
	}
}

func TestReasons(t *testing.T) {
	blue := &tandem.Call{Route: &tandem.Route{Tags: tags("lane", "blue")}}
	nodes := tagged("a", "b lane=blue", "c lane=green version=1")
	for _, tc := range []struct {
		policy Policy
		call   *tandem.Call
		usable func(*Node) bool
		want   map[string]string
	}{
		{Route(P2C()), nil, all, tags("b", "reserved for lane=blue", "c", "reserved for lane=green")},
		{Route(P2C()), blue, all, tags("a", `tag lane is "", wanted "blue"`, "c", "reserved for lane=green")},
		{Route(P2C()), blue, func(n *Node) bool { return n.Instance.ID == "a" }, tags("b", notUsable, "c", "reserved for lane=green")},
		{Route(P2C(), "x"), &tandem.Call{Route: &tandem.Route{Version: "1", Group: "g"}}, all, tags("a", `version "", wanted "1"`, "b", `version "", wanted "1"`, "c", `group "", wanted "g"`)},
		{Random(), nil, func(n *Node) bool { return n.Instance.ID != "a" }, tags("a", notUsable)},
	} {
		e := Explanation{}
		newBranch(tc.policy, nodes).explain(tc.call, tc.usable, &e)
		got := e.Dropped()
		for id, reason := range tc.want {
			if got[id] != reason {
				t.Errorf("%s %v: %s dropped for %q, want %q", tc.policy.Name(), tc.call, id, got[id], reason)
			}
		}
		if len(got) != len(tc.want) {
			t.Errorf("%s: %v, want %v", tc.policy.Name(), got, tc.want)
		}
	}
}

// A node that a later step keeps is not dropped.
func TestDropped(t *testing.T) {
	nodes := weighted(0, 0, 0)
	inside := Subset(1, "me", P2C()).Build(nodes).(*subsetPicker).nodes[0]
	var e Explanation
	Subset(1, "me", P2C()).Build(nodes).(Explainer).Explain(nil, func(n *Node) bool { return n != inside }, &e)
	if d := e.Dropped(); len(d) != 1 || d[inside.Instance.ID] != notUsable {
		t.Errorf("dropped %v in %+v", d, e.Steps)
	}
}

// If a key's node is full, the explanation says so.
func TestFullNodesAreExplained(t *testing.T) {
	for _, policy := range hashPolicies() {
		nodes := weighted(0, 0, 0, 0)
		call := &tandem.Call{HashKey: "hot"}
		p := policy.Build(nodes)
		home := p.Pick(call, all)
		for range 10 {
			home.Stats.Begin()
		}
		var e Explanation
		p.(Explainer).Explain(call, all, &e)
		if got := e.Dropped()[home.Instance.ID]; got != "full: 10 calls in flight" || e.Steps[0].Scores[home.Instance.ID] != 1 {
			t.Errorf("%s: home %s: %q, %v", policy.Name(), home.Instance.ID, got, e.Steps[0].Scores)
		}
	}
}

// silent is a policy whose picker is no Explainer.
type silent struct{}

func (silent) Name() string                                      { return "silent" }
func (silent) Needs() Needs                                      { return Needs{} }
func (silent) Build(nodes []*Node) Picker                        { return silentPicker{nodes[:min(1, len(nodes))]} }
func (p silentPicker) Pick(*tandem.Call, func(*Node) bool) *Node { return p.nodes[0] }

type silentPicker struct{ nodes []*Node }

// For a policy without explanations the step lists at least the nodes.
func TestSilentPolicy(t *testing.T) {
	table := NewTable(Route(silent{}))
	table.Update(instances("a", "b"))
	e := table.Explain(nil, func(n *Node) bool { return n.Instance.ID == "b" })
	if len(e.Steps) != 2 || e.Steps[1].Policy != "silent" || !slices.Equal(e.Steps[1].Kept, []string{"b"}) || e.Dropped()["a"] != notUsable {
		t.Errorf("%+v", e)
	}
}
