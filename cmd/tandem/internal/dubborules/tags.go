package dubborules

import (
	"fmt"

	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/policy"
)

// addTags adds a tag rule: calls with a tag go to its instances and, unless it is forced, to those
// without a tag if there are none; calls without a tag go to those without. The tag of a call is
// its lane.
func (i *Imported) addTags(d *document) {
	document := i.newDocument()
	var tagged []policy.Labels
	var routes []policy.Route
	var places []string
	for n, t := range d.Tags {
		place := fmt.Sprintf("%s: tag %d", d.place, n+1)
		l, why := t.labels()
		if why != "" {
			i.lose(place, why)
			continue
		}
		tagged = append(tagged, l)
		routes = append(routes, policy.Route{
			Name: fmt.Sprintf("%.900s tag %.100s", d.Key, t.Name), Match: policy.Match{Lanes: []string{t.Name}},
			To: []policy.Subset{{Version: l.Version, Group: l.Group, Zone: l.Zone, Tags: l.Tags, Addresses: l.Addresses}},
		})
		places = append(places, place)
	}
	if len(routes) == 0 {
		return
	}
	i.note(d.place, fmt.Sprintf("the routes are for the clients of %q only, and the tag of a call is its lane: the tag %q of its tandem.Route, not "+
		"the attachment dubbo.tag", d.Key, balance.ReservedTag))
	for n, r := range routes {
		if !d.Force {
			r.Fallback = []policy.Subset{{Except: tagged}}
		}
		i.take(r, origin{document, places[n], true})
	}
	rest := policy.Route{Name: fmt.Sprintf("%.900s without a tag", d.Key), To: []policy.Subset{{Except: tagged}}}
	i.take(rest, origin{document, d.place, true})
}

// labels returns what the instances of a tag have. It returns what has no counterpart.
func (t *tag) labels() (l policy.Labels, why string) {
	if t.Name == "" {
		return l, "it has no name"
	}
	if len(t.Addresses) > 0 && len(t.Match) > 0 {
		return l, "addresses and match together have no counterpart"
	}
	if len(t.Addresses) > 0 {
		return l, label(&l, "address", t.Addresses)
	}
	if len(t.Match) == 0 { // those that have registered with it
		return policy.Labels{Tags: map[string]string{balance.ReservedTag: t.Name}}, ""
	}
	for _, m := range t.Match {
		exact := m.Value["exact"]
		if exact == "" || len(m.Value) != 1 {
			return l, fmt.Sprintf("match of %q: only exact values have a counterpart", m.Key)
		}
		if why := label(&l, m.Key, []string{exact}); why != "" {
			return l, fmt.Sprintf("match of %q: %s", m.Key, why)
		}
	}
	return l, ""
}
