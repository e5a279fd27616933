package policy

import (
	"cmp"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of the routes of a policy.
const (
	MaxRoutes      = 256  // routes of a policy
	maxRouteList   = 256  // values of one list of a match, and pairs of one map
	maxSubsets     = 32   // subsets of a route, and its fallbacks
	maxRouteText   = 1024 // bytes of a name or a value
	maxExpression  = 512  // bytes of a regular expression
	maxRepetitions = 1000 // steps that one repetition of a regular expression may expand to
)

// Route sends the calls that match it to subsets of the instances. The first route of a policy
// that matches a call applies; a call that none matches may go to any instance. A call that names
// its instance is not routed. Within the subset, the call's own tandem.Route, the balancer and
// ejection choose as they do among all instances.
type Route struct {
	// Name is unique among the routes of a policy. It is part of the hash of Share and Sticky, so
	// the same keys fall on other sides under another name.
	Name  string `json:"name"`
	Match Match  `json:"match,omitzero"` // the zero Match matches all calls
	// To are the subsets, in proportion to their weights. A call draws its subset once, so all its
	// attempts go to the same one.
	To []Subset `json:"to"`
	// Sticky divides the values of a key by the weights, and not the calls: calls with equal keys
	// go to the same subset, of all clients. Calls without the key draw.
	Sticky *Key `json:"sticky,omitempty"`
	// Fallback are the subsets that are tried in their order when no instance of the drawn one is
	// usable. An instance that a retry avoids counts as usable.
	Fallback []Subset `json:"fallback,omitempty"`
	// IfEmpty says what happens when the fallbacks have no usable instance either: "fail", also if
	// it is left out, or "anywhere".
	IfEmpty string `json:"ifEmpty,omitempty"`
}

// Match says which calls a route is for. All fields that are set must match; of a list, one value
// must.
type Match struct {
	// Methods are names, "Service.Method", or all that begin alike: "Service.*", "Service.get*".
	Methods  []string        `json:"methods,omitempty"`
	Callers  []string        `json:"callers,omitempty"`  // names of calling services: client.Self
	Zones    []string        `json:"zones,omitempty"`    // zones of the client: client.Self, else the balancer's
	Versions []string        `json:"versions,omitempty"` // versions that the call's tandem.Route names
	Lanes    []string        `json:"lanes,omitempty"`    // values of the tag lane in the call's tandem.Route
	Metadata map[string]Text `json:"metadata,omitempty"` // by key in lower case; its first value counts
	Share    *Share          `json:"share,omitempty"`
}

// Text matches a text. All fields that are set must match.
type Text struct {
	Exact   string `json:"exact,omitempty"`
	Prefix  string `json:"prefix,omitempty"`
	Regexp  string `json:"regexp,omitempty"`  // RE2, for the whole text
	Present *bool  `json:"present,omitempty"` // true: there is a text; false: there is none
}

// Key names what a call is told apart by: either field must be set, and not both.
type Key struct {
	Metadata string `json:"metadata,omitempty"` // a key of the metadata, whose first value counts
	HashKey  bool   `json:"hashKey,omitempty"`  // the call's hash key: client.HashKey, client.WithHashKey
}

// Share matches the calls whose key falls into a share of all keys, by a hash that is the same in
// all clients. A larger share has all keys of a smaller one. Calls without the key do not match.
type Share struct {
	Percent  float64 `json:"percent"` // 0 to 100
	Metadata string  `json:"metadata,omitempty"`
	HashKey  bool    `json:"hashKey,omitempty"`
}

// Key returns what the calls are told apart by.
func (s *Share) Key() Key { return Key{s.Metadata, s.HashKey} }

// Subset is a part of the instances: those that have all its labels. Without labels it is all
// instances.
type Subset struct {
	Version   string            `json:"version,omitempty"`
	Group     string            `json:"group,omitempty"`
	Zone      string            `json:"zone,omitempty"`
	SameZone  bool              `json:"sameZone,omitempty"` // the client's own zone
	Tags      map[string]string `json:"tags,omitempty"`
	Addresses []string          `json:"addresses,omitempty"` // hosts, or host:port; a * at either end stands for any text
	Except    []Labels          `json:"except,omitempty"`    // without the instances that have all labels of one of these
	Weight    *int              `json:"weight,omitempty"`    // relative share of the calls; 100 if it is left out
}

// Labels are those of instances.
type Labels struct {
	Version   string            `json:"version,omitempty"`
	Group     string            `json:"group,omitempty"`
	Zone      string            `json:"zone,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Addresses []string          `json:"addresses,omitempty"`
}

// DefaultSubsetWeight is the weight of a subset that names none, and MaxSubsetWeight the largest.
const (
	DefaultSubsetWeight = 100
	MaxSubsetWeight     = 10_000
)

// Share returns the subset's weight.
func (s *Subset) share() int {
	if s.Weight == nil {
		return DefaultSubsetWeight
	}
	return *s.Weight
}

// Labels returns the labels of the subset but for SameZone.
func (s *Subset) Labels() Labels { return Labels{s.Version, s.Group, s.Zone, s.Tags, s.Addresses} }

// String returns the subset in readable form, for example "version 2 lane=blue", and "any instance"
// for all.
func (s *Subset) String() string {
	l := s.Labels()
	text := l.String()
	if s.SameZone {
		text = strings.TrimSpace(text + " the client's zone")
	}
	parts := []string{cmp.Or(text, "any instance")}
	for i := range s.Except {
		parts = append(parts, s.Except[i].String())
	}
	return strings.Join(parts, " but not ")
}

// String returns the labels in readable form.
func (l *Labels) String() string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"version", l.Version}, {"group", l.Group}, {"zone", l.Zone}} {
		if p.value != "" {
			parts = append(parts, p.name+" "+p.value)
		}
	}
	for key, value := range sorted(l.Tags) {
		parts = append(parts, key+"="+value)
	}
	if len(l.Addresses) > 0 {
		parts = append(parts, "at "+strings.Join(l.Addresses, " or "))
	}
	return strings.Join(parts, " ")
}

// routes checks the routes of a policy.
func (c *checks) routes(list []Route) {
	c.addf(len(list) > MaxRoutes, "routes: more than %d", MaxRoutes)
	seen := map[string]bool{}
	for i := range list {
		r := &list[i]
		field := fmt.Sprintf("routes[%.100q]", r.Name)
		if r.Name == "" {
			field = fmt.Sprintf("routes[%d]", i)
		}
		c.text(field+".name", r.Name)
		c.addf(seen[r.Name], "%s.name: another route has it", field)
		seen[r.Name] = true
		c.match(field+".match", &r.Match)
		if r.Sticky != nil {
			c.key(field+".sticky", *r.Sticky)
		}
		c.subsets(field, r)
		c.addf(!slices.Contains(emptyActions(), r.IfEmpty) && r.IfEmpty != "", "%s.ifEmpty: %.100q is none of %s", field, r.IfEmpty, strings.Join(emptyActions(), ", "))
	}
}

// emptyActions are the values of [Route].IfEmpty.
func emptyActions() []string { return []string{"fail", "anywhere"} }

func (c *checks) match(field string, m *Match) {
	lists := map[string][]string{"methods": m.Methods, "callers": m.Callers, "zones": m.Zones, "versions": m.Versions, "lanes": m.Lanes}
	for name, list := range sorted(lists) {
		c.texts(field+"."+name, list)
	}
	for _, name := range m.Methods {
		service, method, ok := cutMethod(name)
		star := strings.IndexByte(name, '*')
		c.addf(!ok || service == "" || method == "", "%s.methods: %.100q is not Service.Method or Service.*", field, name)
		c.addf(star >= 0 && (star < len(name)-1 || star <= len(service)), "%s.methods: %.100q: * may only be the end of the method's name", field, name)
	}
	c.addf(len(m.Metadata) > maxRouteList, "%s.metadata: more than %d keys", field, maxRouteList)
	for key, t := range sorted(m.Metadata) {
		c.metadata(field+".metadata", key)
		c.pattern(fmt.Sprintf("%s.metadata[%.100q]", field, key), t)
	}
	if s := m.Share; s != nil {
		c.addf(!(s.Percent >= 0 && s.Percent <= 100), "%s.share.percent: want 0 to 100", field)
		c.key(field+".share", s.Key())
	}
}

// texts checks the values of a list.
func (c *checks) texts(field string, list []string) {
	c.addf(len(list) > maxRouteList, "%s: more than %d values", field, maxRouteList)
	for _, text := range list {
		c.text(field, text)
	}
}

func (c *checks) text(field, text string) {
	c.addf(text == "", "%s: empty; leave it out", field)
	c.addf(len(text) > maxRouteText, "%s: longer than %d bytes", field, maxRouteText)
}

func (c *checks) key(field string, k Key) {
	c.addf((k.Metadata == "") == !k.HashKey, "%s: want one of metadata and hashKey", field)
	if k.Metadata != "" {
		c.metadata(field+".metadata", k.Metadata)
	}
}

// metadata checks a key of the metadata. Other spellings of a key would be the same one to calls.
func (c *checks) metadata(field, key string) {
	c.text(field, key)
	c.addf(strings.ContainsFunc(key, func(r rune) bool { return 'A' <= r && r <= 'Z' }), "%s: %.100q: keys of metadata are in lower case", field, key)
}

// pattern checks how a text is matched.
func (c *checks) pattern(field string, t Text) {
	c.addf(t == Text{}, "%s: want one of exact, prefix, regexp and present", field)
	c.addf(max(len(t.Exact), len(t.Prefix)) > maxRouteText, "%s: longer than %d bytes", field, maxRouteText)
	c.addf(t.Present != nil && !*t.Present && t.Exact+t.Prefix+t.Regexp != "", "%s: a text that is not present matches nothing: leave present out", field)
	if len(t.Regexp) > maxExpression {
		c.addf(true, "%s.regexp: longer than %d bytes", field, maxExpression)
		return
	}
	if t.Regexp == "" {
		return
	}
	c.addf(!utf8.ValidString(t.Regexp), "%s.regexp: not UTF-8", field)
	e, err := syntax.Parse(t.Regexp, syntax.Perl)
	if err == nil {
		_, err = regexp.Compile(t.Regexp)
	}
	c.addf(err != nil, "%s.regexp: %v", field, err)
	c.addf(err == nil && expanded(e) > maxRepetitions, "%s.regexp: its repetitions are too large", field)
}

// expanded returns about how many steps an expression has when its repetitions are written out.
func expanded(e *syntax.Regexp) int {
	sum := 1
	for _, sub := range e.Sub {
		sum += expanded(sub)
	}
	if e.Op == syntax.OpRepeat {
		sum *= max(e.Min, e.Max, 1)
	}
	return sum
}

func (c *checks) subsets(field string, r *Route) {
	c.addf(len(r.To) == 0, "%s.to: want a subset; {} is all instances", field)
	c.addf(max(len(r.To), len(r.Fallback)) > maxSubsets, "%s: more than %d subsets", field, maxSubsets)
	sum := 0
	for i := range r.To {
		s := &r.To[i]
		c.subset(fmt.Sprintf("%s.to[%d]", field, i), s)
		c.addf(s.share() < 0 || s.share() > MaxSubsetWeight, "%s.to[%d].weight: want 0 to %d", field, i, MaxSubsetWeight)
		sum += s.share()
	}
	c.addf(len(r.To) > 0 && sum == 0, "%s.to: all weights are 0", field)
	c.addf(r.Sticky != nil && len(r.To) == 1, "%s.sticky: no effect with one subset: use match.share", field)
	for i := range r.Fallback {
		s := &r.Fallback[i]
		c.subset(fmt.Sprintf("%s.fallback[%d]", field, i), s)
		c.addf(s.Weight != nil, "%s.fallback[%d].weight: fallbacks are tried in order: leave it out", field, i)
	}
}

func (c *checks) subset(field string, s *Subset) {
	c.addf(s.SameZone && s.Zone != "", "%s: zone and sameZone: want one of them", field)
	l := s.Labels()
	c.labels(field, &l)
	c.addf(len(s.Except) > maxRouteList, "%s.except: more than %d", field, maxRouteList)
	for i := range s.Except {
		c.addf(s.Except[i].String() == "", "%s.except[%d]: without labels it is all instances", field, i)
		c.labels(fmt.Sprintf("%s.except[%d]", field, i), &s.Except[i])
	}
}

func (c *checks) labels(field string, l *Labels) {
	for name, value := range map[string]string{"version": l.Version, "group": l.Group, "zone": l.Zone} {
		c.addf(len(value) > maxRouteText, "%s.%s: longer than %d bytes", field, name, maxRouteText)
	}
	c.addf(len(l.Tags) > maxRouteList, "%s.tags: more than %d", field, maxRouteList)
	for key, value := range sorted(l.Tags) {
		c.text(field+".tags", key)
		c.text(fmt.Sprintf("%s.tags[%.100q]", field, key), value)
	}
	c.texts(field+".addresses", l.Addresses)
	for _, a := range l.Addresses {
		inner := strings.TrimSuffix(strings.TrimPrefix(a, "*"), "*")
		c.addf(strings.Contains(inner, "*"), "%s.addresses: %.100q: * may only be at the ends", field, a)
	}
}
