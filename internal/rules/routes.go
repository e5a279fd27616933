package rules

import (
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
)

// Self is what routes match of the client itself.
type Self struct {
	Caller string // name of the calling service
	Zone   string
}

// routeTable is the compiled routes of a policy, for one client. It does not change.
type routeTable struct {
	given    []policy.Route
	self     Self
	routes   []route
	subsets  []subset
	methods  map[string]*candidates // by whole name
	services map[string]*candidates // of methods that are not in methods
	others   *candidates            // of the remaining methods
}

// route is a compiled policy.Route.
type route struct {
	name     string
	never    string      // why it matches no call of this client; "" if it may
	rest     []condition // what the index of candidates does not cover
	to       []target
	total    float64 // sum of the weights
	sticky   *hasher // nil: calls draw
	fallback []int   // places in subsets
	anywhere bool    // after the last fallback any instance will do
}

// target is a subset with its share of the calls.
type target struct {
	subset int // place in the table's subsets
	until  float64
	weight float64
}

// routeBits is a set of routes, by place.
type routeBits [policy.MaxRoutes / 64]uint64

func (b *routeBits) add(i int) { b[i/64] |= 1 << (i % 64) }

// candidates are the routes that may match calls of a method, with an index of what they want of
// the metadata: so a call costs a look-up for each key, and not for each route.
type candidates struct {
	routes routeBits
	keys   []keyIndex
}

// keyIndex finds routes by the value of a key of the metadata.
type keyIndex struct {
	key    string
	free   routeBits            // routes that want no exact value
	values map[string]routeBits // that want this value, and those of free
}

// match returns the place of the first route that matches a call, -1 if none does.
func (t *routeTable) match(call *tandem.Call) int {
	c := t.candidatesOf(call.Method)
	left := c.routes
	for i := range c.keys {
		k := &c.keys[i]
		with := &k.free
		if v := call.Metadata[k.key]; len(v) > 0 {
			if those, ok := k.values[v[0]]; ok {
				with = &those
			}
		}
		for w := range left {
			left[w] &= with[w]
		}
	}
	for w := range left {
		for left[w] != 0 {
			at := w*64 + bits.TrailingZeros64(left[w])
			if t.routes[at].holds(call) {
				return at
			}
			left[w] &= left[w] - 1
		}
	}
	return -1
}

func (t *routeTable) candidatesOf(method string) *candidates {
	if c := t.methods[method]; c != nil {
		return c
	}
	if len(t.services) > 0 {
		if i := strings.LastIndexByte(method, '.'); i >= 0 {
			if c := t.services[method[:i]]; c != nil {
				return c
			}
		}
	}
	return t.others
}

func (r *route) holds(call *tandem.Call) bool {
	for i := range r.rest {
		if !r.rest[i].holds(call) {
			return false
		}
	}
	return true
}

// compileRoutes compiles valid routes; nil for none.
func compileRoutes(given []policy.Route, self Self) *routeTable {
	if len(given) == 0 {
		return nil
	}
	t := &routeTable{given: given, self: self, routes: make([]route, len(given))}
	places := map[string]int{}
	for i := range given {
		t.routes[i] = t.compile(&given[i], places)
	}
	t.index()
	return t
}

// compile compiles a route. places are the places of subsets by their text.
func (t *routeTable) compile(g *policy.Route, places map[string]int) route {
	r := route{name: g.Name, anywhere: g.IfEmpty == "anywhere"}
	place := func(s *policy.Subset) int {
		key := fmt.Sprintf("%q %q", s.Labels(), s.Except) + s.String()
		i, ok := places[key]
		if !ok {
			i = len(t.subsets)
			places[key] = i
			t.subsets = append(t.subsets, newSubset(s, t.self.Zone))
		}
		return i
	}
	for i := range g.To {
		weight := float64(policy.DefaultSubsetWeight)
		if w := g.To[i].Weight; w != nil {
			weight = float64(*w)
		}
		r.total += weight
		r.to = append(r.to, target{place(&g.To[i]), r.total, weight})
	}
	for i := range g.Fallback {
		r.fallback = append(r.fallback, place(&g.Fallback[i]))
	}
	if g.Sticky != nil {
		r.sticky = newHasher(g.Name+"\x00sticky", *g.Sticky)
	}
	m := &g.Match
	if r.never = outside("the caller", t.self.Caller, m.Callers); r.never == "" {
		r.never = outside("the client's zone", t.self.Zone, m.Zones)
	}
	r.rest = conditionsOf(g)
	return r
}

// outside returns why a property of the client is none of the list; "" if it is, or the list is
// empty.
func outside(what, have string, list []string) string {
	switch {
	case len(list) == 0 || slices.Contains(list, have):
		return ""
	case have == "":
		return what + " is not known, wanted " + strings.Join(list, " or ")
	}
	return fmt.Sprintf("%s is %q, wanted %s", what, have, strings.Join(list, " or "))
}

// index makes the candidates of each method that a route names, and of the others.
func (t *routeTable) index() {
	t.methods, t.services = map[string]*candidates{}, map[string]*candidates{}
	for i := range t.given {
		for _, name := range t.given[i].Match.Methods {
			dot := strings.LastIndexByte(name, '.')
			t.services[name[:dot]] = nil
			if !strings.HasSuffix(name, "*") {
				t.methods[name] = nil
			}
		}
	}
	for name := range t.methods {
		t.methods[name] = t.candidates(func(pattern string) bool { return isMethod(pattern, name) })
	}
	for service := range t.services {
		// A pattern such as Service.get* depends on the method: a condition checks it.
		t.services[service] = t.candidates(func(pattern string) bool {
			return strings.HasSuffix(pattern, "*") && pattern[:strings.LastIndexByte(pattern, '.')] == service
		})
	}
	t.others = t.candidates(func(string) bool { return false })
}

// isMethod reports whether a pattern of a match is for a method.
func isMethod(pattern, method string) bool {
	prefix, some := strings.CutSuffix(pattern, "*")
	if !some {
		return pattern == method
	}
	return strings.HasPrefix(method, prefix) && strings.LastIndexByte(method, '.') == strings.LastIndexByte(pattern, '.')
}

// candidates returns the candidates of calls whose method some of the patterns are for.
func (t *routeTable) candidates(isFor func(pattern string) bool) *candidates {
	c := new(candidates)
	keys := map[string]*keyIndex{}
	var all []int
	for i := range t.routes {
		m := &t.given[i].Match
		if t.routes[i].never != "" || len(m.Methods) > 0 && !slices.ContainsFunc(m.Methods, isFor) {
			continue
		}
		c.routes.add(i)
		all = append(all, i)
		for key, text := range m.Metadata {
			if text.Exact != "" {
				k := keys[key]
				if k == nil {
					k = &keyIndex{key: key, values: map[string]routeBits{}}
					keys[key] = k
				}
				those := k.values[text.Exact]
				those.add(i)
				k.values[text.Exact] = those
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		k := keys[key]
		for _, i := range all {
			if t.given[i].Match.Metadata[key].Exact == "" {
				k.free.add(i)
			}
		}
		for value, those := range k.values {
			for w := range those {
				those[w] |= k.free[w]
			}
			k.values[value] = those
		}
		c.keys = append(c.keys, *k)
	}
	return c
}

// setRoutes compiles the routes of a valid policy.
func (r *Rules) setRoutes(o *Base, given []policy.Route) {
	self := o.Self
	if self.Zone == "" && r.steps != nil {
		self.Zone = r.steps.Zone
	}
	if r.routes = compileRoutes(given, self); r.routes == nil {
		return
	}
	r.Routed = true
	r.Draws = slices.ContainsFunc(given, func(g policy.Route) bool { return len(g.To) > 1 })
	r.Balancer = routed{r.routes, r.Balancer}
}

// same reports whether two tables do the same.
func (t *routeTable) same(other *routeTable) bool {
	if t == nil || other == nil {
		return t == other
	}
	return t.self == other.self && reflect.DeepEqual(t.given, other.given)
}
