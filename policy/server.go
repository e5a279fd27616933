package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// KindServer is the Kind of a [Server] policy.
const KindServer = "server"

// Server is how a server treats the calls that come to it, as plain data that may change while it
// runs. The zero fields of its rules change nothing.
//
//	{
//	  "kind": "server",
//	  "default": {"maxDeadline": "5s", "perCaller": {"rate": 100, "burst": 20}},
//	  "methods": {
//	    "Orders.*":      {"allow": ["web", "spiffe://shop/*"], "criticality": "critical"},
//	    "Orders.Report": {"limit": {"atOnce": 2}, "criticality": "sheddable"}
//	  }
//	}
//
// [ServerSchema] is its JSON Schema.
type Server struct {
	// Kind is [KindServer]. It keeps a server from taking a client's policy, and the reverse.
	Kind string `json:"kind"`
	// Version names this state of the policy for people; servers report which version they have
	// applied.
	Version string `json:"version,omitempty"`
	// Change is who changed the policy last; package registry/history fills it in.
	Change *Change `json:"change,omitempty"`
	// Default applies to all methods, as far as Methods says nothing else.
	Default ServerMethod `json:"default,omitzero"`
	// Methods are by name, "Service.Method", or "Service.*" for all methods of a service. The
	// more specific one applies, field by field.
	Methods map[string]ServerMethod `json:"methods,omitempty"`
}

// ServerMethod is how calls of a method are served. A limit of a service, or of the default,
// counts each method alone.
type ServerMethod struct {
	MaxDeadline Duration `json:"maxDeadline,omitzero"`  // calls run at most that long, whatever their deadline
	Criticality string   `json:"criticality,omitempty"` // the class of all calls, in place of the one that they ask for

	Limit     *Limit `json:"limit,omitempty"`     // of all callers together
	PerCaller *Limit `json:"perCaller,omitempty"` // of each caller: its name, or the address of one without a name
	PerTenant *Limit `json:"perTenant,omitempty"` // of each tenant; calls without one are not limited

	// Allow are the callers that may call the method, and no others; Deny are those that may not,
	// even if they are allowed. Each is a name, or the beginning of names and a "*"; "*" are all
	// callers, also those without a name. An empty Allow, "[]", allows none.
	Allow []string `json:"allow,omitzero"`
	Deny  []string `json:"deny,omitzero"`
}

// Limit is how many calls are served. Its zero fields limit nothing.
type Limit struct {
	Rate   float64 `json:"rate,omitempty"`   // calls a second, in the long run
	Burst  int     `json:"burst,omitempty"`  // calls that may come at once; a tenth of Rate if 0, 1 at least
	AtOnce int     `json:"atOnce,omitempty"` // calls in flight
}

// Bounds of server policies.
const (
	maxCallers    = 1000    // names in a list
	maxCallerName = 512     // bytes
	maxLimit      = 1 << 30 // of a Limit's fields
)

// Criticalities are the names that [ServerMethod].Criticality takes.
func Criticalities() []string { return []string{"sheddable", "normal", "critical", "critical-plus"} }

// ParseServer reads a server's policy from JSON, as strictly as [Parse] reads a client's.
func ParseServer(text []byte) (*Server, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("policy of %d bytes, limit %d", len(text), MaxSize)
	}
	if kind := kindOf(text); kind != KindServer {
		return nil, fmt.Errorf("policy: kind is %.40q: that of a server's is %q, and a client's has none", kind, KindServer)
	}
	if err := exactAs(text, reflect.TypeFor[Server]()); err != nil {
		return nil, err
	}
	p := new(Server)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return p, p.Validate()
}

// kindOf returns the kind that a document claims to be.
func kindOf(text []byte) string {
	var d struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(text, &d) != nil {
		return ""
	}
	return d.Kind
}

// IsServer reports whether a text claims to be a server's policy. It may still be invalid.
func IsServer(text []byte) bool { return kindOf(text) == KindServer }

// identify returns what names the state of a policy of either kind.
func identify(text []byte) (version string, change *Change, err error) {
	if IsServer(text) {
		p, err := ParseServer(text)
		if err != nil {
			return "", nil, err
		}
		return p.Version, p.Change, nil
	}
	p, err := Parse(text)
	if err != nil {
		return "", nil, err
	}
	return p.Version, p.Change, nil
}

// Validate returns an error that names every invalid field.
func (p *Server) Validate() error {
	var c checks
	c.addf(p.Kind != KindServer, "kind: %.40q, want %q", p.Kind, KindServer)
	c.addf(len(p.Version) > 128, "version: longer than 128 bytes")
	if ch := p.Change; ch != nil {
		c.addf(ch.Revision < 0, "change.revision: negative")
		c.addf(len(ch.By) > MaxReason || len(ch.Why) > MaxReason, "change: by or why is longer than %d bytes", MaxReason)
	}
	c.served("default", &p.Default)
	c.addf(len(p.Methods) > maxMethods, "methods: more than %d", maxMethods)
	for name, m := range p.Methods {
		service, method, ok := cutMethod(name)
		c.addf(!ok || service == "" || method == "", "methods: %.100q is not Service.Method or Service.*", name)
		c.served(fmt.Sprintf("methods[%.100q]", name), &m)
	}
	return errors.Join(c...)
}

func (c *checks) served(field string, m *ServerMethod) {
	c.duration(field+".maxDeadline", m.MaxDeadline)
	c.addf(m.Criticality != "" && !slices.Contains(Criticalities(), m.Criticality),
		"%s.criticality: %.40q is none of %s", field, m.Criticality, strings.Join(Criticalities(), ", "))
	c.limit(field+".limit", m.Limit)
	c.limit(field+".perCaller", m.PerCaller)
	c.limit(field+".perTenant", m.PerTenant)
	c.callers(field+".allow", m.Allow)
	c.callers(field+".deny", m.Deny)
}

func (c *checks) limit(field string, l *Limit) {
	if l == nil {
		return
	}
	c.addf(!(l.Rate >= 0 && l.Rate <= maxLimit), "%s.rate: want 0 to %d", field, maxLimit)
	c.addf(l.Burst < 0 || l.Burst > maxLimit, "%s.burst: want 0 to %d", field, maxLimit)
	c.addf(l.AtOnce < 0 || l.AtOnce > maxLimit, "%s.atOnce: want 0 to %d", field, maxLimit)
	c.addf(l.Burst > 0 && l.Rate == 0, "%s.burst: it has no effect without a rate", field)
}

func (c *checks) callers(field string, names []string) {
	c.addf(len(names) > maxCallers, "%s: more than %d names", field, maxCallers)
	for i, name := range names {
		star := strings.IndexByte(name, '*')
		c.addf(name == "" || len(name) > maxCallerName || star >= 0 && star < len(name)-1,
			"%s[%d]: %.40q: want a name, or the beginning of names and one *, of at most %d bytes", field, i, name, maxCallerName)
	}
}

// For returns how calls of a method are served. Zero fields change nothing.
func (p *Server) For(method string) ServerMethod {
	m := p.Methods[method]
	if service, _, ok := cutMethod(method); ok {
		m.inherit(p.Methods[service+".*"])
	}
	m.inherit(p.Default)
	return m
}

// inherit sets the zero fields of m to those of n.
func (m *ServerMethod) inherit(n ServerMethod) {
	m.MaxDeadline = either(m.MaxDeadline, n.MaxDeadline)
	m.Criticality = either(m.Criticality, n.Criticality)
	m.Limit = either(m.Limit, n.Limit)
	m.PerCaller = either(m.PerCaller, n.PerCaller)
	m.PerTenant = either(m.PerTenant, n.PerTenant)
	if m.Allow == nil {
		m.Allow = n.Allow
	}
	if m.Deny == nil {
		m.Deny = n.Deny
	}
}

// Admits reports whether a caller may call the method, and why: the entry of a list that says so.
// The name of a caller that is not known is "".
func (m *ServerMethod) Admits(caller string) (ok bool, why string) {
	if entry := listed(m.Deny, caller); entry != "" {
		return false, fmt.Sprintf("deny has %q", entry)
	}
	if m.Allow == nil {
		return true, "there is no list of callers"
	}
	if entry := listed(m.Allow, caller); entry != "" {
		return true, fmt.Sprintf("allow has %q", entry)
	}
	return false, "allow does not have it"
}

// listed returns the first entry that fits a caller; "" if there is none.
func listed(names []string, caller string) string {
	for _, name := range names {
		start, open := strings.CutSuffix(name, "*")
		if name == "*" || caller != "" && (name == caller || open && strings.HasPrefix(caller, start)) {
			return name
		}
	}
	return ""
}

// Refills returns how many calls a Limit lets through at once, if it has a rate.
func (l *Limit) Refills() int {
	if l.Burst > 0 {
		return l.Burst
	}
	const tenth = 10
	return max(1, int(l.Rate/tenth))
}

// Capped returns the earlier of a deadline, zero for none, and the longest one from now.
func (m *ServerMethod) Capped(now, deadline time.Time) time.Time {
	if m.MaxDeadline <= 0 {
		return deadline
	}
	if most := now.Add(time.Duration(m.MaxDeadline)); deadline.IsZero() || most.Before(deadline) {
		return most
	}
	return deadline
}
