package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/policy"
)

// Decide says where the routes send a call, and why; nil if there are none. picker is one of the
// Balancer of the Rules.
func Decide(picker balance.Picker, call *tandem.Call, usable func(*balance.Node) bool) *policy.Decision {
	p, ok := picker.(*routedPicker)
	if !ok {
		return nil
	}
	d := new(policy.Decision)
	if call.Pin != "" {
		return d
	}
	t := p.policy.table
	at := t.match(call)
	for i := range t.routes {
		if i == at {
			break
		}
		d.Skipped = append(d.Skipped, policy.Skipped{Route: t.routes[i].name, Why: t.whyNot(i, call)})
	}
	if at < 0 {
		return d
	}
	r := &t.routes[at]
	d.Route = r.name
	for _, drawn := range r.draws(call) {
		d.Chances = append(d.Chances, p.chance(r, drawn, call, usable))
	}
	if len(d.Chances) == 1 {
		d.Chances[0].Percent = 100
	}
	return d
}

// draws returns the places in to that a call may draw.
func (r *route) draws(call *tandem.Call) (places []int) {
	if call.Draw != 0 || len(r.to) == 1 || r.sticky != nil && r.sticky.has(call) {
		return []int{r.draw(call)}
	}
	for i := range r.to {
		if r.to[i].weight > 0 {
			places = append(places, i)
		}
	}
	return places
}

// chance says where a call goes if it draws that place.
func (p *routedPicker) chance(r *route, drawn int, call *tandem.Call, usable func(*balance.Node) bool) policy.Chance {
	wanted := &p.policy.table.subsets[r.to[drawn].subset]
	c := policy.Chance{Subset: wanted.text, Percent: 100 * r.to[drawn].weight / r.total}
	i, ok := p.policy.goes(r, drawn, p.nodes, call, usable)
	if ok {
		c.Goes = p.policy.table.textOf(i)
	}
	if !ok || i != r.to[drawn].subset {
		c.Empty = p.policy.whyEmpty(r.to[drawn].subset, p.nodes, call)
	}
	return c
}

// textOf returns a subset in readable form.
func (t *routeTable) textOf(subset int) string {
	if subset == everywhere {
		return new(policy.Subset).String()
	}
	return t.subsets[subset].text
}

// whyEmpty returns why a subset has no usable instance.
func (p routed) whyEmpty(subset int, nodes []*balance.Node, call *tandem.Call) string {
	s := &p.table.subsets[subset]
	all := nodesOf(s, nodes)
	switch fit := len(p.within(subset, nodes, call, func(*balance.Node) bool { return true })); {
	case s.none != "":
		return s.none
	case len(all) == 0:
		return fmt.Sprintf("none of %d instances is in the subset %q", len(nodes), s.text)
	case fit == 0 && call.Route != nil:
		return fmt.Sprintf("none of the %d instances in the subset %q is for the call's route: %v", len(all), s.text, call.Route)
	case fit == 0:
		return fmt.Sprintf("all %d instances in the subset %q are reserved for calls with a route", len(all), s.text)
	default:
		return fmt.Sprintf("none of the %d instances in the subset %q is usable", fit, s.text)
	}
}

// whyNot returns why a route does not match a call.
func (t *routeTable) whyNot(i int, call *tandem.Call) string {
	r, m := &t.routes[i], &t.given[i].Match
	if r.never != "" {
		return r.never
	}
	if len(m.Methods) > 0 && !slices.ContainsFunc(m.Methods, func(pattern string) bool { return isMethod(pattern, call.Method) }) {
		return "it is not for the method"
	}
	for key, text := range m.Metadata {
		if values := call.Metadata[key]; text.Exact != "" && (len(values) == 0 || values[0] != text.Exact) {
			return whyNot(call, key, &text)
		}
	}
	for _, c := range r.rest {
		if !c.holds(call) {
			return c.why(call)
		}
	}
	return "" // it does match
}

// Misrouted returns why the routes leave a call without an instance; "" if they do not.
func (r *Rules) Misrouted(nodes []*balance.Node, call *tandem.Call) string {
	p, ok := r.Balancer.(routed)
	if !ok {
		return ""
	}
	taken := p.table.routeOf(call)
	if taken == nil {
		return ""
	}
	drawn := taken.draw(call)
	if _, ok := p.goes(taken, drawn, nodes, call, func(*balance.Node) bool { return true }); ok {
		return ""
	}
	why := p.whyEmpty(taken.to[drawn].subset, nodes, call)
	if n := len(taken.fallback); n > 0 {
		why += fmt.Sprintf(", and the fallbacks, %d, are empty too", n)
	}
	return fmt.Sprintf("route %q: %s", taken.name, why)
}

// Explain shows the subset that the call goes to, or those that it may draw, with the share of
// each as scores, and then the steps within each.
func (p *routedPicker) Explain(call *tandem.Call, usable func(*balance.Node) bool, e *balance.Explanation) {
	r := p.policy.table.routeOf(call)
	if r == nil {
		e.Steps = append(e.Steps, p.step("", p.nodes))
		explain(p.all, call, usable, e)
		return
	}
	var kept []*balance.Node
	var pickers []balance.Picker
	for _, drawn := range r.draws(call) {
		i, ok := p.policy.goes(r, drawn, p.nodes, call, usable)
		switch {
		case !ok:
		case i == everywhere:
			kept, pickers = append(kept, p.nodes...), append(pickers, p.all)
		default:
			t := p.part(i)
			kept, pickers = append(kept, t.nodes...), append(pickers, t.picker)
		}
	}
	e.Steps = append(e.Steps, p.step(r.name, kept))
	for i, picker := range pickers {
		if !slices.Contains(pickers[:i], picker) {
			explain(picker, call, usable, e)
		}
	}
}

// step returns the step of the routes.
func (p *routedPicker) step(route string, kept []*balance.Node) balance.Step {
	s := balance.Step{Policy: "routes", Dropped: map[string]string{}}
	for _, n := range p.nodes {
		if slices.Contains(kept, n) {
			s.Kept = append(s.Kept, n.Instance.ID)
		} else {
			s.Dropped[n.Instance.ID] = fmt.Sprintf("route %q sends the call elsewhere", route)
		}
	}
	return s
}

// explain adds the steps of a picker. All pickers are of balance.Route, which explains itself.
func explain(picker balance.Picker, call *tandem.Call, usable func(*balance.Node) bool, e *balance.Explanation) {
	if x, ok := picker.(balance.Explainer); ok {
		x.Explain(call, usable, e)
	}
}

// Routes returns the names of the routes, in their order; "none" without any.
func (r *Rules) Routes() string {
	if r.routes == nil {
		return "none"
	}
	names := make([]string, len(r.routes.given))
	for i := range names {
		names[i] = r.routes.given[i].Name
	}
	return strings.Join(names, ", ")
}
