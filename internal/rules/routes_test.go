package rules

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/policy"
)

// toVersion is the part of a route that sends calls to a version.
func toVersion(version string) []policy.Subset { return []policy.Subset{{Version: version}} }

// routing returns the rules of a client with these routes.
func routing(t testing.TB, self Self, routes ...policy.Route) *Rules {
	t.Helper()
	p := &policy.Policy{Routes: routes}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	o := builtin()
	o.Self = self
	return New(&o, p, "v")
}

// matched returns the name of the route that matches a call, "" if none does.
func matched(r *Rules, call *tandem.Call) string {
	if taken := r.routes.routeOf(call); taken != nil {
		return taken.name
	}
	return ""
}

// Each field of a match holds and fails by itself, and the explanation says why.
func TestMatchByEachField(t *testing.T) {
	self := Self{Caller: "shop", Zone: "eu-1"}
	call := func() *tandem.Call {
		return &tandem.Call{
			Method: "Cart.getAll", HashKey: "ann", Metadata: tandem.Metadata{"user": {"ann", "bob"}},
			Route: &tandem.Route{Version: "2", Tags: map[string]string{"lane": "blue"}},
		}
	}
	for _, c := range []struct {
		why   string // "" if it matches
		match policy.Match
	}{
		{"", policy.Match{}},
		{"", policy.Match{Methods: []string{"A.b", "Cart.getAll"}}},
		{"", policy.Match{Methods: []string{"Cart.*"}}},
		{"", policy.Match{Methods: []string{"Cart.get*"}}},
		{"it is not for the method", policy.Match{Methods: []string{"Cart.get", "Car.*", "Cart.put*"}}},
		{"", policy.Match{Callers: []string{"web", "shop"}}},
		{`the caller is "shop", wanted web or job`, policy.Match{Callers: []string{"web", "job"}}},
		{"", policy.Match{Zones: []string{"eu-1"}}},
		{`the client's zone is "eu-1", wanted eu-2`, policy.Match{Zones: []string{"eu-2"}}},
		{"", policy.Match{Versions: []string{"2"}}},
		{`the version that the call asks for is "2", wanted 1`, policy.Match{Versions: []string{"1"}}},
		{"", policy.Match{Lanes: []string{"blue"}}},
		{`the call's lane is "blue", wanted red`, policy.Match{Lanes: []string{"red"}}},
		{"", policy.Match{Metadata: map[string]policy.Text{"user": {Exact: "ann"}}}},
		{`metadata "user" is "ann", wanted "bob"`, policy.Match{Metadata: map[string]policy.Text{"user": {Exact: "bob"}}}},
		{"", policy.Match{Metadata: map[string]policy.Text{"user": {Prefix: "an"}}}},
		{`metadata "user" is "ann", wanted prefix "x"`, policy.Match{Metadata: map[string]policy.Text{"user": {Prefix: "x"}}}},
		{"", policy.Match{Metadata: map[string]policy.Text{"user": {Regexp: "b|an+"}}}},
		{`metadata "user" is "ann", wanted a match of "an|n"`, policy.Match{Metadata: map[string]policy.Text{"user": {Regexp: "an|n"}}}},
		{"", policy.Match{Metadata: map[string]policy.Text{"user": {Present: new(true)}}}},
		{`metadata "user" is "ann", wanted none`, policy.Match{Metadata: map[string]policy.Text{"user": {Present: new(false)}}}},
		{"", policy.Match{Metadata: map[string]policy.Text{"other": {Present: new(false)}}}},
		{`the call has no metadata "other"`, policy.Match{Metadata: map[string]policy.Text{"other": {Present: new(true)}}}},
		{`the call has no metadata "other"`, policy.Match{Metadata: map[string]policy.Text{"user": {Exact: "ann"}, "other": {Exact: "x"}}}},
		{"", policy.Match{Share: &policy.Share{Percent: 100, Metadata: "user"}}},
		{"", policy.Match{Share: &policy.Share{Percent: 100, HashKey: true}}},
		{`the call has no metadata "tenant"`, policy.Match{Share: &policy.Share{Percent: 100, Metadata: "tenant"}}},
		{`its hash key is at 11.54 %, and the share ends at 0 %`, policy.Match{Share: &policy.Share{Percent: 0, HashKey: true}}},
	} {
		r := routing(t, self, policy.Route{Name: "r", Match: c.match, To: toVersion("2")})
		want := "r"
		if c.why != "" {
			want = ""
		}
		if got := matched(r, call()); got != want {
			t.Errorf("%+v: route %q, want %q", c.match, got, want)
		}
		if got := r.routes.whyNot(0, call()); got != c.why {
			t.Errorf("%+v: %q, want %q", c.match, got, c.why)
		}
	}
}

// A client that says neither who it is nor where it runs matches no route for callers or zones,
// and a zone of the balancer counts.
func TestSelf(t *testing.T) {
	zones := policy.Route{Name: "zones", Match: policy.Match{Zones: []string{"a"}}, To: toVersion("2")}
	r := routing(t, Self{}, zones)
	if got := r.routes.whyNot(0, new(tandem.Call)); got != "the client's zone is not known, wanted a" {
		t.Error(got)
	}
	o := builtin()
	r = New(&o, &policy.Policy{Balancer: &policy.Balancer{Pick: "p2c", Zone: "a"}, Routes: []policy.Route{zones}}, "")
	if got := matched(r, new(tandem.Call)); got != "zones" {
		t.Errorf("with the balancer's zone: %q", got)
	}
}

// someRoute returns a random route.
func someRoute(r *rand.Rand, name string) policy.Route {
	m := policy.Match{}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	for range r.IntN(3) {
		m.Methods = append(m.Methods, pick("A.x", "A.y", "A.*", "A.x*", "B.x", "B.*", "a.A.x", "a.A.*"))
	}
	for range r.IntN(3) {
		if m.Metadata == nil {
			m.Metadata = map[string]policy.Text{}
		}
		m.Metadata[pick("k", "l", "m")] = []policy.Text{{Exact: "1"}, {Exact: "2"}, {Exact: "2", Prefix: "2"}, {Prefix: "1"}, {Present: new(false)}, {Regexp: "[12]"}}[r.IntN(6)]
	}
	if r.IntN(4) == 0 {
		m.Callers = []string{pick("me", "you")}
	}
	if r.IntN(4) == 0 {
		m.Lanes = []string{pick("blue", "red")}
	}
	return policy.Route{Name: name, Match: m, To: toVersion("2")}
}

// The index finds the first route that has no reason not to match, for random routes and calls.
func TestIndexFindsTheFirstMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 100 {
		var routes []policy.Route
		for i := range 1 + r.IntN(100) {
			routes = append(routes, someRoute(r, fmt.Sprint(i)))
		}
		table := routing(t, Self{Caller: "me"}, routes...).routes
		for range 20 {
			call := &tandem.Call{Method: []string{"A.x", "A.y", "A.z", "B.x", "C.x", "a.A.x", "x", ""}[r.IntN(8)], Metadata: tandem.Metadata{}}
			for range r.IntN(4) {
				call.Metadata.Add([]string{"k", "l", "m"}[r.IntN(3)], []string{"1", "2", "12", ""}[r.IntN(4)])
			}
			if r.IntN(2) == 0 {
				call.Route = &tandem.Route{Tags: map[string]string{"lane": "blue"}}
			}
			want := slices.IndexFunc(table.routes, func(x route) bool {
				i := slices.IndexFunc(table.routes, func(y route) bool { return x.name == y.name })
				return table.whyNot(i, call) == ""
			})
			if got := table.match(call); got != want {
				t.Fatalf("%s %v: route %d, want %d of %+v", call.Method, call.Metadata, got, want, routes)
			}
			if want >= 0 {
				found++
			}
		}
	}
	if found < 500 || found > 1950 {
		t.Errorf("%d of 2000 calls matched a route: the test says little", found)
	}
}

// inShare returns which of 20,000 keys are in a share.
func inShare(t *testing.T, name string, percent float64) map[string]bool {
	r := routing(t, Self{}, policy.Route{Name: name, Match: policy.Match{Share: &policy.Share{Percent: percent, Metadata: "user"}}, To: toVersion("2")})
	in := map[string]bool{}
	for i := range 20_000 {
		key := fmt.Sprint("user-", i)
		if matched(r, &tandem.Call{Method: "A.x", Metadata: tandem.Metadata{"user": {key}}}) != "" {
			in[key] = true
		}
	}
	return in
}

// A share has its part of the keys, a larger one has all keys of a smaller one, and the keys of
// another route are drawn anew.
func TestShareOnlyAddsKeys(t *testing.T) {
	before := inShare(t, "canary", 5)
	if n := len(before); n < 900 || n > 1100 {
		t.Errorf("5 %% of 20000 keys are %d", n)
	}
	for _, percent := range []float64{5.01, 10, 50, 100} {
		in := inShare(t, "canary", percent)
		for key := range before {
			if !in[key] {
				t.Fatalf("%s is among 5 %% and not among %v %%", key, percent)
			}
		}
		if n := float64(len(in)); n < 200*percent*0.93 || n > 200*percent*1.07 {
			t.Errorf("%v %% of 20000 keys are %v", percent, n)
		}
	}
	both := 0
	for key := range inShare(t, "other", 5) {
		if before[key] {
			both++
		}
	}
	if both > 100 {
		t.Errorf("two routes share %d of 1000 keys: their hashes are not independent", both)
	}
}

// The places of keys are part of the protocol between clients: they must never change.
func TestPlacesOfKeysStay(t *testing.T) {
	h := newHasher("canary\x00share", policy.Key{HashKey: true})
	var got []string
	for _, key := range []string{"ann", "bob", "user-17", "日本"} {
		at, _ := h.at(&tandem.Call{HashKey: key})
		got = append(got, fmt.Sprintf("%.6f", at))
	}
	if want := []string{"0.591695", "0.944863", "0.019184", "0.474934"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// nodesFor returns nodes with Stats.
func nodesFor(instances ...tandem.Instance) []*balance.Node {
	table := balance.NewTable(balance.Random())
	table.Update(instances)
	return table.Nodes()
}

var world = []tandem.Instance{
	{ID: "a1", Version: "1", Zone: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.1.1:80"}}},
	{ID: "a2", Version: "2", Zone: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.1.2:80"}}},
	{ID: "b1", Version: "1", Zone: "b", Group: "g", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.2.1:80"}}},
	{ID: "b2", Version: "2", Zone: "b", Tags: map[string]string{"lane": "blue"}, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "[::1]:80"}}},
}

// chosen returns which instances 2000 calls go to, and how many each; "-" for none.
func chosen(r *Rules, call tandem.Call, bad ...string) map[string]int {
	picker := r.Balancer.Build(nodesFor(world...))
	counts := map[string]int{}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		c := call
		if c.Draw == 0 {
			c.Draw = random.Uint32() | 1
		}
		n := picker.Pick(&c, func(n *balance.Node) bool {
			return !slices.Contains(bad, n.Instance.ID) && !slices.Contains(c.Exclude, n.Instance.ID)
		})
		if n == nil {
			counts["-"]++
		} else {
			counts[n.Instance.ID]++
		}
	}
	return counts
}

// ids returns the keys of the counts.
func ids(counts map[string]int) string {
	var list []string
	for id := range counts {
		list = append(list, id)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// Each label of a subset chooses; subsets compose with the call's route, reserved lanes and pins.
func TestSubsets(t *testing.T) {
	blue := &tandem.Route{Tags: map[string]string{"lane": "blue"}}
	for _, c := range []struct {
		want   string
		subset policy.Subset
		call   tandem.Call
	}{
		{"a1 a2 b1", policy.Subset{}, tandem.Call{}},
		{"a2", policy.Subset{Version: "2"}, tandem.Call{}},
		{"", policy.Subset{Zone: "a"}, tandem.Call{Pin: "b2"}}, // a call that names its instance is not routed
		{"b1", policy.Subset{Group: "g"}, tandem.Call{}},
		{"a1 a2", policy.Subset{SameZone: true}, tandem.Call{}},
		{"a1 a2", policy.Subset{Zone: "a"}, tandem.Call{}},
		{"b2", policy.Subset{Tags: map[string]string{"lane": "blue"}}, tandem.Call{}},
		{"-", policy.Subset{Tags: map[string]string{"lane": "red"}}, tandem.Call{}},
		{"b2", policy.Subset{Version: "2"}, tandem.Call{Route: blue}},
		{"a1 b1", policy.Subset{Version: "1"}, tandem.Call{Route: blue}},
		{"-", policy.Subset{Version: "1"}, tandem.Call{Route: &tandem.Route{Tags: blue.Tags, Force: true}}},
		{"a1", policy.Subset{Addresses: []string{"10.0.1.1"}}, tandem.Call{}},
		{"a1", policy.Subset{Addresses: []string{"10.0.1.1:80"}}, tandem.Call{}},
		{"a1 a2", policy.Subset{Addresses: []string{"10.0.1.*"}}, tandem.Call{}},
		{"a1 a2", policy.Subset{Except: []policy.Labels{{Addresses: []string{"10.0.2.1"}}}}, tandem.Call{}},
		{"a1 b1", policy.Subset{Addresses: []string{"*.1:80"}}, tandem.Call{}},
		{"a1 a2 b1", policy.Subset{Addresses: []string{"*"}}, tandem.Call{}},
		{"-", policy.Subset{Except: []policy.Labels{{Addresses: []string{"*"}}}}, tandem.Call{}},
		{"b1", policy.Subset{Except: []policy.Labels{{Version: "2"}, {Zone: "a"}}}, tandem.Call{}},
		{"b1", policy.Subset{Version: "1", Except: []policy.Labels{{Zone: "a"}}}, tandem.Call{}},
	} {
		r := routing(t, Self{Zone: "a"}, policy.Route{Name: "r", To: []policy.Subset{c.subset}})
		if c.call.Pin != "" {
			if got := ids(chosen(r, c.call, "a1", "a2", "b1")); got != c.call.Pin {
				t.Errorf("a call for %s went to %s", c.call.Pin, got)
			}
			continue
		}
		if got := ids(chosen(r, c.call)); got != c.want {
			t.Errorf("%v, %v: went to %s, want %s", c.subset.String(), c.call.Route, got, c.want)
		}
		if got := eligibleIDs(r, c.call); got != c.want {
			t.Errorf("%v, %v: eligible are %s, want %s", c.subset.String(), c.call.Route, got, c.want)
		}
	}
}

// eligibleIDs returns the instances that a broadcast would go to.
func eligibleIDs(r *Rules, call tandem.Call, bad ...string) string {
	counts := map[string]int{}
	for _, n := range r.Needs.Eligible(nodesFor(world...), &call, func(n *balance.Node) bool { return !slices.Contains(bad, n.Instance.ID) }) {
		counts[n.Instance.ID]++
	}
	if len(counts) == 0 {
		return "-"
	}
	return ids(counts)
}

// Calls are divided by weight, and a call's attempts stay where its first one went.
func TestWeights(t *testing.T) {
	r := routing(t, Self{}, policy.Route{Name: "r", To: []policy.Subset{
		{Version: "2", Weight: new(5)}, {Group: "g", Weight: new(0)}, {Version: "1", Zone: "a", Weight: new(95)},
	}})
	if !r.Draws {
		t.Error("calls get no random number")
	}
	counts := chosen(r, tandem.Call{})
	if n := counts["a2"]; ids(counts) != "a1 a2" || n < 60 || n > 140 {
		t.Errorf("%v, want 5 %% at a2", counts)
	}
	for i := range 100 {
		if counts := chosen(r, tandem.Call{Draw: rand.Uint32() | 1}); len(counts) != 1 {
			t.Fatalf("call %d went to %v", i, counts)
		}
	}
}

// A sticky route divides keys, not calls.
func TestStickyRoute(t *testing.T) {
	r := routing(t, Self{}, policy.Route{Name: "r", Sticky: &policy.Key{Metadata: "user"}, To: []policy.Subset{
		{Version: "2", Weight: new(5)}, {Version: "1", Zone: "a", Weight: new(95)},
	}})
	keys := map[string]int{}
	for i := range 2000 {
		call := tandem.Call{Metadata: tandem.Metadata{"user": {fmt.Sprint(i)}}}
		taken := r.routes.routeOf(&call)
		first := taken.draw(&call)
		for range 5 {
			call.Draw = rand.Uint32() | 1
			if again := taken.draw(&call); again != first {
				t.Fatalf("user %d drew %d, then %d", i, first, again)
			}
		}
		keys[fmt.Sprint(first)]++
	}
	if n := keys["0"]; n < 60 || n > 140 {
		t.Errorf("%v, want 5 %% of the keys at 0", keys)
	}
	if counts := chosen(r, tandem.Call{}); counts["a2"] < 60 || counts["a2"] > 140 {
		t.Errorf("calls without a key: %v, want 5 %% at a2", counts)
	}
}

// When a subset has no usable instance the fallbacks are tried in order, and then what IfEmpty says.
// An instance that a retry avoids is no reason to leave the subset.
func TestFallback(t *testing.T) {
	to := policy.Route{Name: "r", To: toVersion("2"), Fallback: []policy.Subset{{Version: "3"}, {Group: "g"}}}
	anywhere := to
	anywhere.IfEmpty = "anywhere"
	for _, c := range []struct {
		want  string
		route policy.Route
		call  tandem.Call
		bad   []string
	}{
		{"a2", to, tandem.Call{}, nil},
		{"b1", to, tandem.Call{}, []string{"a2"}},
		{"-", to, tandem.Call{}, []string{"a2", "b1"}},
		{"a1", anywhere, tandem.Call{}, []string{"a2", "b1"}},
		{"-", to, tandem.Call{Exclude: []string{"a2"}}, nil}, // the client then forgets the exclusions
		{"b1", to, tandem.Call{Exclude: []string{"a2"}}, []string{"a2"}},
		{"-", anywhere, tandem.Call{Exclude: []string{"a2"}}, nil},
	} {
		r := routing(t, Self{}, c.route)
		if got := ids(chosen(r, c.call, c.bad...)); got != c.want {
			t.Errorf("%v without %v, excluding %v: went to %s, want %s", c.route.IfEmpty, c.bad, c.call.Exclude, got, c.want)
		}
	}
	r := routing(t, Self{}, to)
	if got := eligibleIDs(r, tandem.Call{}, "a2"); got != "b1" {
		t.Errorf("a broadcast without a2 goes to %s, want b1", got)
	}
}

// The decision names the route, the subset and why other routes did not match.
func TestDecide(t *testing.T) {
	r := routing(t, Self{},
		policy.Route{Name: "ann", Match: policy.Match{Metadata: map[string]policy.Text{"user": {Exact: "ann"}}}, To: toVersion("2")},
		policy.Route{Name: "rest", To: []policy.Subset{{Version: "3", Weight: new(1)}, {Version: "1", Weight: new(3)}}, Fallback: []policy.Subset{{Group: "g"}}},
		policy.Route{Name: "last", To: []policy.Subset{{}}})
	picker := r.Balancer.Build(nodesFor(world...))
	d := Decide(picker, &tandem.Call{Method: "A.x"}, func(*balance.Node) bool { return true })
	want := &policy.Decision{
		Route: "rest",
		Chances: []policy.Chance{
			{Subset: "version 3", Percent: 25, Goes: "group g", Empty: "none of 4 instances is in the subset \"version 3\""},
			{Subset: "version 1", Percent: 75, Goes: "version 1"},
		},
		Skipped: []policy.Skipped{{Route: "ann", Why: `the call has no metadata "user"`}},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, want %+v", d, want)
	}
	var e balance.Explanation
	picker.(balance.Explainer).Explain(&tandem.Call{Method: "A.x"}, func(*balance.Node) bool { return true }, &e)
	if got := fmt.Sprint(e.Steps[0].Kept); got != "[a1 b1]" {
		t.Errorf("kept %s", got)
	}
	if why := r.Misrouted(nodesFor(world[1]), &tandem.Call{Method: "A.x", Draw: 1 << 31}); why != `route "rest": none of 1 instances is in the subset "version 1", and the fallbacks, 1, are empty too` {
		t.Error(why)
	}
}

// Rules with other routes have another balancer, and those with equal ones keep the pickers.
func TestSameRoutesKeepPickers(t *testing.T) {
	a := policy.Route{Name: "r", To: toVersion("1")}
	b := policy.Route{Name: "r", To: toVersion("2")}
	for _, c := range []struct {
		x, y *Rules
		same bool
	}{
		{routing(t, Self{}, a), routing(t, Self{}, a), true},
		{routing(t, Self{}, a), routing(t, Self{}, b), false},
		{routing(t, Self{}, a), routing(t, Self{}), false},
		{routing(t, Self{}), routing(t, Self{}, a), false},
	} {
		if got := c.x.SameBalancer(c.y); got != c.same {
			t.Errorf("%s and %s: %v", c.x.Routes(), c.y.Routes(), got)
		}
	}
}
