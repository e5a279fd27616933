package dubborules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem/policy"
)

// pair is what one side of a condition says of a parameter.
type pair struct {
	key    string
	values []string
	not    bool
}

// pairsOf parses one side of a condition, such as "method=get,list & region!=north".
func pairsOf(text string) (list []pair, err error) {
	if text = strings.TrimSpace(text); text == "" || text == "true" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, "&") {
		key, values, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want key=value", strings.TrimSpace(part))
		}
		key, not := strings.CutSuffix(strings.TrimSpace(key), "!")
		p := pair{key: strings.TrimSpace(key), not: not}
		for v := range strings.SplitSeq(values, ",") {
			if v = strings.TrimSpace(v); v != "" {
				p.values = append(p.values, v)
			}
		}
		if p.key == "" || len(p.values) == 0 {
			return nil, fmt.Errorf("%q: want key=value", strings.TrimSpace(part))
		}
		list = append(list, p)
	}
	return list, nil
}

func (p *pair) String() string {
	op := "="
	if p.not {
		op = "!="
	}
	return p.key + op + strings.Join(p.values, ",")
}

// service is the service of a rule's key, with the version and the group of its references.
type service struct{ name, version, group string }

// serviceOf parses a key: group/name:version, or name:version:group.
func serviceOf(key string) (s service) {
	if group, rest, ok := strings.Cut(key, "/"); ok {
		s.group, key = group, rest
	}
	parts := strings.Split(key, ":")
	s.name = parts[0]
	if len(parts) > 1 {
		s.version = parts[1]
	}
	if len(parts) > 2 {
		s.group = cmp.Or(s.group, parts[2])
	}
	return s
}

// base returns what a document's scope and key say of the calls.
func (i *Imported) base(d *document) (m policy.Match, s service, err error) {
	switch d.Scope {
	case "application":
		i.note(d.place, fmt.Sprintf("scope application: the routes are for the clients of %q only", d.Key))
		return m, s, nil
	case "service", "":
	default:
		return m, s, fmt.Errorf("scope %q: want service or application", d.Scope)
	}
	if s = serviceOf(d.Key); s.name == "" {
		return m, s, errors.New("key: want the name of a service")
	}
	if s.group != "" {
		i.note(d.place, fmt.Sprintf("group %q of the key: the routes also match calls of other groups", s.group))
	}
	if s.version != "" {
		m.Versions = []string{s.version}
	}
	m.Methods = []string{s.name + ".*"}
	return m, s, nil
}

// addConditions adds a condition rule of version 3.0 or earlier.
func (i *Imported) addConditions(d *document) error {
	var texts []string
	if err := json.Unmarshal(d.Conditions, &texts); err != nil {
		return fmt.Errorf("conditions: want a list of texts, such as \"method=get => region=north\": %w", err)
	}
	base, s, err := i.base(d)
	if err != nil {
		return err
	}
	document := i.newDocument()
	for n, text := range texts {
		place := fmt.Sprintf("%s: condition %d", d.place, n+1)
		from, to, ok := strings.Cut(text, "=>")
		if !ok {
			from, to = "", text
		}
		r := policy.Route{Name: nameOf(d, n), Match: base, IfEmpty: emptyOf(d.Force)}
		if why := matchOf(&r.Match, s, from); why != "" {
			i.lose(place, why)
			continue
		}
		subset, why := subsetOf(to)
		if why != "" {
			i.lose(place, why)
			continue
		}
		if forbids(to) {
			r.IfEmpty = ""
		}
		r.To = []policy.Subset{subset}
		i.take(r, origin{document, place, false})
	}
	return nil
}

// destination is a condition of version 3.1.
type destination struct {
	Priority       int   `json:"priority"`
	Force          *bool `json:"force"`
	Ratio          int   `json:"ratio"`
	TrafficDisable bool  `json:"trafficDisable"`
	Disable        bool  `json:"disable"`
	From           struct {
		Match string `json:"match"`
	} `json:"from"`
	To []struct {
		Match  string `json:"match"`
		Weight *int   `json:"weight"`
	} `json:"to"`
}

// addDestinations adds a condition rule of version 3.1, whose conditions have several weighted
// destinations. Dubbo, too, applies the first that matches.
func (i *Imported) addDestinations(d *document) error {
	var list []destination
	if err := json.Unmarshal(d.Conditions, &list); err != nil {
		return fmt.Errorf("conditions: want a list of objects with from and to: %w", err)
	}
	base, s, err := i.base(d)
	if err != nil {
		return err
	}
	places := map[*destination]int{}
	ordered := make([]*destination, len(list))
	for n := range list {
		ordered[n] = &list[n]
		places[ordered[n]] = n
	}
	slices.SortStableFunc(ordered, func(a, b *destination) int {
		if a.disables() != b.disables() {
			return cmp.Compare(truth(b.disables()), truth(a.disables()))
		}
		return -cmp.Compare(a.Priority, b.Priority)
	})
	document := i.newDocument()
	for at, c := range ordered {
		place := fmt.Sprintf("%s: condition %d", d.place, places[c]+1)
		r := policy.Route{Name: nameOf(d, places[c]), Match: base}
		if why := matchOf(&r.Match, s, c.From.Match); why != "" {
			i.lose(place, why)
			continue
		}
		force := d.Force
		if c.Force != nil {
			force = *c.Force
		}
		if why := c.fill(&r, force); why != "" {
			i.lose(place, why)
			continue
		}
		if len(r.Fallback) > 2 {
			i.note(place, "when the destination that was drawn is empty Dubbo draws another by weight, and a policy takes the first that is not")
		}
		if !force && !c.disables() && at < len(ordered)-1 {
			i.note(place, "when its destinations are empty Dubbo goes on with the next condition, and a policy with any instance")
		}
		i.take(r, origin{document, place, true})
	}
	return nil
}

func (c *destination) disables() bool { return c.TrafficDisable || c.Disable }

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fill sets the subsets of a route. It returns why that can't be, "" if it can.
func (c *destination) fill(r *policy.Route, force bool) string {
	if c.disables() {
		r.To = []policy.Subset{none()}
		return ""
	}
	r.IfEmpty = emptyOf(force)
	if c.Ratio != 0 {
		return fmt.Sprintf("ratio=%d, a least share of the instances, has no counterpart", c.Ratio)
	}
	for _, to := range c.To {
		if strings.TrimSpace(to.Match) == "" { // here it stands for all instances
			to.Match = "true"
		}
		s, why := subsetOf(to.Match)
		if why != "" {
			return why
		}
		if len(c.To) > 1 {
			r.Fallback = append(r.Fallback, s) // Dubbo draws among those that are not empty
			s.Weight = to.Weight
		}
		r.To = append(r.To, s)
	}
	if len(r.To) == 0 {
		return "it has no destination"
	}
	return ""
}

// nameOf returns the name of the route of a condition.
func nameOf(d *document, n int) string { return fmt.Sprintf("%.900s condition %d", d.Key, n+1) }

func emptyOf(force bool) string {
	if force {
		return ""
	}
	return "anywhere"
}

// matchOf adds what the left side of a condition says of calls. It returns what has no counterpart.
func matchOf(m *policy.Match, s service, from string) (why string) {
	pairs, err := pairsOf(from)
	if err != nil {
		return err.Error()
	}
	for n := range pairs {
		if p := &pairs[n]; p.key == "interface" && s.name == "" && len(p.values) == 1 && !p.not {
			s.name = p.values[0]
			m.Methods = []string{s.name + ".*"}
		}
	}
	for n := range pairs {
		if why := callsOf(m, s, &pairs[n]); why != "" {
			return pairs[n].String() + ": " + why
		}
	}
	return ""
}

// callsOf adds what one parameter says of calls. It returns why that has no counterpart.
func callsOf(m *policy.Match, s service, p *pair) (why string) {
	if p.not {
		return "what is not equal has no counterpart on the left side"
	}
	if slices.ContainsFunc(p.values, func(v string) bool { return v[0] == '$' }) {
		return "references such as $host have no counterpart"
	}
	if key, ok := strings.CutPrefix(p.key, "attachments["); ok && strings.HasSuffix(key, "]") && key != "]" {
		if m.Metadata == nil {
			m.Metadata = map[string]policy.Text{}
		}
		m.Metadata[strings.ToLower(strings.TrimSuffix(key, "]"))] = textOf(p.values)
		return ""
	}
	if p.key == "method" {
		return methodsOf(m, s, p.values)
	}
	return plainOf(m, s, p)
}

// plainOf is callsOf for parameters whose values may have no star.
func plainOf(m *policy.Match, s service, p *pair) (why string) {
	if !slices.Contains([]string{"application", "version", "zone", "interface"}, p.key) {
		return "has no counterpart on the left side"
	}
	if slices.ContainsFunc(p.values, func(v string) bool { return strings.Contains(v, "*") }) {
		return "a * has no counterpart here"
	}
	switch p.key {
	case "application":
		m.Callers = p.values
	case "version":
		m.Versions = p.values
	case "zone":
		m.Zones = p.values
	case "interface":
		if len(p.values) > 1 || p.values[0] != s.name {
			return "want one service, that of the key"
		}
	}
	return ""
}

func methodsOf(m *policy.Match, s service, values []string) (why string) {
	if s.name == "" {
		return "in scope application it needs interface=SERVICE beside it"
	}
	m.Methods = nil
	for _, v := range values {
		if star := strings.IndexByte(v, '*'); star >= 0 && star < len(v)-1 {
			return "a * that is not at the end of a method has no counterpart"
		}
		m.Methods = append(m.Methods, s.name+"."+v)
	}
	return ""
}

// textOf returns the match of a text that is one of the values, which may have stars.
func textOf(values []string) policy.Text {
	if v := values[0]; len(values) == 1 && !strings.Contains(v, "*") {
		return policy.Text{Exact: v}
	}
	if prefix, ok := strings.CutSuffix(values[0], "*"); ok && len(values) == 1 && prefix != "" && !strings.Contains(prefix, "*") {
		return policy.Text{Prefix: prefix}
	}
	var quoted []string
	for _, v := range values {
		quoted = append(quoted, strings.ReplaceAll(regexp.QuoteMeta(v), `\*`, `.*`))
	}
	return policy.Text{Regexp: strings.Join(quoted, "|")}
}

// forbids reports whether the right side of a condition forbids the calls.
func forbids(to string) bool {
	to = strings.TrimSpace(to)
	return to == "" || to == "false"
}

// none is the subset without instances.
func none() policy.Subset {
	return policy.Subset{Except: []policy.Labels{{Addresses: []string{"*"}}}}
}

// subsetOf returns the instances that the right side of a condition allows. It returns what has no
// counterpart.
func subsetOf(to string) (s policy.Subset, why string) {
	if forbids(to) {
		return none(), ""
	}
	pairs, err := pairsOf(to)
	if err != nil {
		return s, err.Error()
	}
	l := policy.Labels{}
	for n := range pairs {
		p := &pairs[n]
		switch {
		case p.key == "zone" && len(p.values) == 1 && p.values[0] == "$zone" && !p.not:
			s.SameZone = true
		case slices.ContainsFunc(p.values, func(v string) bool { return v[0] == '$' }):
			return s, p.String() + ": references such as $host have no counterpart"
		case p.not:
			for _, v := range p.values {
				other := policy.Labels{}
				if why = label(&other, p.key, []string{v}); why != "" {
					return s, p.String() + ": " + why
				}
				s.Except = append(s.Except, other)
			}
		default:
			if why = label(&l, p.key, p.values); why != "" {
				return s, p.String() + ": " + why
			}
		}
	}
	s.Version, s.Group, s.Zone, s.Tags, s.Addresses = l.Version, l.Group, l.Zone, l.Tags, l.Addresses
	return s, ""
}

// label sets what a parameter of instances must be. It returns why that can't be, "" if it can.
func label(l *policy.Labels, key string, values []string) (why string) {
	switch key {
	case "host", "address", "port":
		if len(l.Addresses) > 0 {
			return "two conditions on addresses have no counterpart"
		}
		for _, v := range values {
			if key == "port" {
				v = "*:" + v
			}
			if strings.Contains(strings.Trim(v, "*"), "*") {
				return "a * in the middle of an address has no counterpart"
			}
			l.Addresses = append(l.Addresses, v)
		}
		return ""
	case "protocol", "method", "interface":
		return "has no counterpart on the right side"
	}
	if len(values) > 1 || strings.Contains(values[0], "*") {
		return "several values or a * have no counterpart on the right side"
	}
	switch v := values[0]; key {
	case "version":
		l.Version = v
	case "group":
		l.Group = v
	case "zone":
		l.Zone = v
	default:
		if l.Tags == nil {
			l.Tags = map[string]string{}
		}
		l.Tags[key] = v
	}
	return ""
}
