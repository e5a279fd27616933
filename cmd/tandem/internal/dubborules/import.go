// Package dubborules turns Dubbo's condition and tag rules into the routes of a policy.
package dubborules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/policy/yaml"
)

// Imported is what has become of some rules.
type Imported struct {
	Routes []policy.Route
	Lost   []string // what routes can't express, each with its place
	Notes  []string // what to know of the rest

	origins []origin // of Routes, in the same order
}

// origin is where a route is from.
type origin struct {
	document int
	place    string
	ordered  bool // Dubbo, too, applies the first rule of the document that matches
}

// document is a rule as Dubbo writes it.
type document struct {
	ConfigVersion string          `json:"configVersion"`
	Scope         string          `json:"scope"`
	Key           string          `json:"key"`
	Enabled       *bool           `json:"enabled"`
	Force         bool            `json:"force"`
	Priority      int             `json:"priority"`
	Conditions    json.RawMessage `json:"conditions"`
	Tags          []tag           `json:"tags"`
	Type          string          `json:"type"` // of script rules

	Script          json.RawMessage `json:"script"`
	Rule            json.RawMessage `json:"rule"`
	AffinityAware   json.RawMessage `json:"affinityAware"`
	Configs         json.RawMessage `json:"configs"`
	VirtualServices json.RawMessage `json:"spec"`

	place string
}

// tag is a tag of a tag rule. Without addresses and match it stands for the instances that have
// registered with it.
type tag struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
	Match     []struct {
		Key   string            `json:"key"`
		Value map[string]string `json:"value"`
	} `json:"match"`
}

// Import reads the rules of a file, which may hold several documents, and adds their routes.
func (i *Imported) Import(file string, text []byte) error {
	var documents []*document
	for n, part := range split(string(text)) {
		d := &document{place: fmt.Sprintf("%s: document %d", file, n+1)}
		asJSON, err := yaml.JSON([]byte(part))
		if err == nil {
			err = json.Unmarshal(asJSON, d)
		}
		if err != nil {
			return fmt.Errorf("%s: %s", d.place, strings.TrimPrefix(err.Error(), "policy: "))
		}
		documents = append(documents, d)
	}
	if len(documents) == 0 {
		return fmt.Errorf("%s: no rules", file)
	}
	slices.SortStableFunc(documents, func(a, b *document) int { return -cmp.Compare(a.Priority, b.Priority) })
	for _, d := range documents {
		if err := i.add(d); err != nil {
			return fmt.Errorf("%s: %w", d.place, err)
		}
	}
	return nil
}

// split returns the documents of a file that are not empty.
func split(text string) (list []string) {
	var lines []string
	end := func() {
		if slices.ContainsFunc(lines, func(l string) bool { l = strings.TrimSpace(l); return l != "" && l[0] != '#' }) {
			list = append(list, strings.Join(lines, "\n"))
		}
		lines = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "---" || line == "..." {
			end()
			continue
		}
		lines = append(lines, line)
	}
	end()
	return list
}

func (i *Imported) add(d *document) error {
	switch {
	case d.Enabled != nil && !*d.Enabled:
		i.note(d.place, "it is not enabled: left out")
		return nil
	case d.Tags != nil:
		i.addTags(d)
		return nil
	case d.Script != nil || d.Type != "" || d.Rule != nil:
		i.lose(d.place, "scripts have no counterpart")
		return nil
	case d.AffinityAware != nil:
		i.lose(d.place, "affinity with a ratio has no counterpart: see the zones of the balancer")
		return nil
	case d.Configs != nil:
		i.lose(d.place, "it overrides settings: see the methods of a policy")
		return nil
	case d.VirtualServices != nil:
		i.lose(d.place, "virtual services and destination rules are not read")
		return nil
	case d.Conditions == nil:
		return errors.New("neither conditions nor tags: want a condition rule or a tag rule")
	case strings.EqualFold(d.ConfigVersion, "v3.1"):
		return i.addDestinations(d)
	}
	return i.addConditions(d)
}

func (i *Imported) lose(place, why string) { i.Lost = append(i.Lost, place+": "+why) }
func (i *Imported) note(place, what string) {
	i.Notes = append(i.Notes, place+": "+what)
}

// take adds a route, unless it is not valid; its name gets a number if it is taken.
func (i *Imported) take(r policy.Route, from origin) {
	if err := (&policy.Policy{Routes: []policy.Route{r}}).Validate(); err != nil {
		i.lose(from.place, strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	name := r.Name
	for n := 2; slices.ContainsFunc(i.Routes, func(other policy.Route) bool { return other.Name == r.Name }); n++ {
		r.Name = fmt.Sprintf("%s (%d)", name, n)
	}
	i.Routes = append(i.Routes, r)
	i.origins = append(i.origins, from)
}

// newDocument returns the number of the next document among the origins.
func (i *Imported) newDocument() int {
	if len(i.origins) == 0 {
		return 0
	}
	return i.origins[len(i.origins)-1].document + 1
}

// Finish adds what can only be said of all rules together: where Dubbo applies several of them to a
// call, and a policy the first.
func (i *Imported) Finish() {
	for n, later := range i.origins {
		for m, earlier := range i.origins[:n] {
			if later.document == earlier.document && later.ordered || disjoint(&i.Routes[m].Match, &i.Routes[n].Match) {
				continue
			}
			i.lose(later.place, "its calls may be those of "+earlier.place+": Dubbo applies both rules, and a policy only the first that matches")
			break
		}
	}
}

// disjoint reports whether it is certain that no call matches both.
func disjoint(a, b *policy.Match) bool {
	apart := func(a, b []string) bool {
		return len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
	}
	methods := len(a.Methods) > 0 && len(b.Methods) > 0 && !slices.ContainsFunc(a.Methods, func(x string) bool {
		return slices.ContainsFunc(b.Methods, func(y string) bool { return overlap(x, y) })
	})
	for key, text := range a.Metadata {
		if other := b.Metadata[key]; text.Exact != "" && other.Exact != "" && text.Exact != other.Exact {
			return true
		}
	}
	return methods || apart(a.Callers, b.Callers) || apart(a.Lanes, b.Lanes) || apart(a.Versions, b.Versions) || apart(a.Zones, b.Zones)
}

// overlap reports whether a method may be of both patterns.
func overlap(a, b string) bool {
	x, some := strings.CutSuffix(a, "*")
	y, other := strings.CutSuffix(b, "*")
	switch {
	case some && other:
		return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
	case some:
		return strings.HasPrefix(y, x)
	case other:
		return strings.HasPrefix(x, y)
	}
	return x == y
}
