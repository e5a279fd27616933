// Package policy (stable) describes how a client treats its calls as plain data: in code, in a
// file, or in a registry, and changed while the client runs.
//
//	{
//	  "version": "2026-11-21.3",
//	  "balancer": {"pick": "p2c", "slowStart": "30s"},
//	  "default": {"timeout": "2s", "failMode": "failover", "retries": 2},
//	  "methods": {
//	    "Orders.Get":  {"idempotent": true, "failMode": "backup", "timeout": "300ms"},
//	    "Orders.*":    {"timeout": "1s"}
//	  }
//	}
//
// The client's options apply where a policy says nothing. [Schema] is its JSON Schema.
package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of the text of a policy, and of the names and reasons of a [Change], in bytes.
const (
	MaxSize   = 1 << 20
	MaxReason = 1000
)

// Policy is how a client treats its calls. The zero Policy changes nothing.
type Policy struct {
	// Version names this state of the policy for people; clients report which version they have
	// applied.
	Version string `json:"version,omitempty"`
	// Change is who changed the policy last; package registry/history fills it in.
	Change   *Change   `json:"change,omitempty"`
	Balancer *Balancer `json:"balancer,omitempty"`
	Ejection *Ejection `json:"ejection,omitempty"`
	Budget   *Budget   `json:"retryBudget,omitempty"`
	// Default applies to all methods, as far as Methods says nothing else.
	Default Method `json:"default,omitzero"`
	// Methods are by name, "Service.Method", or "Service.*" for all methods of a service. The
	// more specific one applies, field by field.
	Methods map[string]Method `json:"methods,omitempty"`
	// Routes choose the instances that calls may go to. The first that matches a call applies.
	Routes []Route `json:"routes,omitempty"`
}

// Method is how calls of a method are made.
type Method struct {
	Timeout        Duration `json:"timeout,omitzero"`        // timeout of a call that has no deadline of its own
	AttemptTimeout Duration `json:"attemptTimeout,omitzero"` // timeout of each attempt
	FailMode       string   `json:"failMode,omitempty"`      // one of FailModes
	Retries        *int     `json:"retries,omitempty"`       // further attempts; 0 to 10
	Idempotent     *bool    `json:"idempotent,omitempty"`    // a second execution does no harm
	Breaker        *Breaker `json:"breaker,omitempty"`       // breaker of the method at each instance
	Degrade        *Degrade `json:"degrade,omitempty"`       // what a call that fails is answered with
}

// Change says who changed a document of a registry, such as a policy, when and why.
type Change struct {
	Revision int       `json:"revision,omitempty"` // numbers the versions of the document, from 1
	By       string    `json:"by,omitempty"`
	Why      string    `json:"why,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// Balancer says how instances are chosen. The steps apply in the order of the fields.
type Balancer struct {
	Route     bool     `json:"route,omitempty"`    // choose by the call's version, group and tags
	Sticky    bool     `json:"sticky,omitempty"`   // keep the first choice
	Zone      string   `json:"zone,omitempty"`     // the client's own; calls stay there as far as its capacity allows
	SlowStart Duration `json:"slowStart,omitzero"` // time in which the share of a new instance grows
	Pick      string   `json:"pick"`               // one of Picks
}

// Ejection says when an instance that fails or is slow gets no calls.
type Ejection struct {
	Off           bool     `json:"off,omitempty"`
	Window        Duration `json:"window,omitzero"`         // time in which failures are counted
	MinCalls      int      `json:"minCalls,omitempty"`      // number of calls below which an instance is not judged
	FailureRate   float64  `json:"failureRate,omitempty"`   // how far an outlier's share of failed calls is above the median
	LatencyFactor float64  `json:"latencyFactor,omitempty"` // how many times the median latency an outlier's latency is
	Consecutive   int      `json:"consecutive,omitempty"`   // failures in a row
	Pause         Duration `json:"pause,omitzero"`          // the first pause; each further one is twice as long
	MaxPause      Duration `json:"maxPause,omitzero"`
	MaxShare      float64  `json:"maxShare,omitempty"` // share of the instances that may be left out at a time
}

// Breaker says when a method is not called at an instance any more.
type Breaker struct {
	Off         bool     `json:"off,omitempty"`
	Window      Duration `json:"window,omitzero"`
	MinCalls    int      `json:"minCalls,omitempty"`
	FailureRate float64  `json:"failureRate,omitempty"`
	Consecutive int      `json:"consecutive,omitempty"`
	Pause       Duration `json:"pause,omitzero"`
	MaxPause    Duration `json:"maxPause,omitzero"`
}

// Budget bounds all retries and hedged requests of a client together.
type Budget struct {
	Share     float64 `json:"share"`     // share of the calls; 0.1 is 10 %
	PerSecond int     `json:"perSecond"` // retries a second in addition
}

// Duration is a time.Duration whose JSON is a string, such as "1.5s" or "250ms".
type Duration time.Duration

// MarshalText returns the duration as [time.Duration.String] does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses a duration as [time.ParseDuration] does, without a sign.
func (d *Duration) UnmarshalText(text []byte) error {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		return fmt.Errorf("duration %.40q: want one without a sign, such as 1.5s", text)
	}
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// FailModes are the names that [Method].FailMode takes.
func FailModes() []string {
	return []string{"failfast", "failover", "failtry", "failsafe", "failback", "backup", "broadcast", "fork"}
}

// Picks are the names that [Balancer].Pick takes.
func Picks() []string {
	return []string{
		"p2c", "round-robin", "random", "least-in-flight", "shortest-latency", "least-loaded", "least-reported",
		"ring-hash", "maglev", "jump-hash",
	}
}

// Parse reads a policy from JSON. It fails for fields that do not exist, occur twice or are
// null, for invalid values, and for anything after the policy. It accepts only what [Schema]
// allows.
func Parse(text []byte) (*Policy, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("policy of %d bytes, limit %d", len(text), MaxSize)
	}
	if err := exact(text); err != nil {
		return nil, err
	}
	p := new(Policy)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return p, p.Validate()
}

// maxMethods is how many methods a policy may name.
const maxMethods = 10_000

// Validate returns an error that names every invalid field.
func (p *Policy) Validate() error {
	var c checks
	c.addf(len(p.Version) > 128, "version: longer than 128 bytes")
	if ch := p.Change; ch != nil {
		c.addf(ch.Revision < 0, "change.revision: negative")
		c.addf(len(ch.By) > MaxReason || len(ch.Why) > MaxReason, "change: by or why is longer than %d bytes", MaxReason)
	}
	if b := p.Balancer; b != nil {
		c.addf(!slices.Contains(Picks(), b.Pick), "balancer.pick: %q is none of %s", b.Pick, strings.Join(Picks(), ", "))
		c.duration("balancer.slowStart", b.SlowStart)
	}
	if e := p.Ejection; e != nil {
		c.limits("ejection", Breaker{Window: e.Window, Pause: e.Pause, MaxPause: e.MaxPause, MinCalls: e.MinCalls, FailureRate: e.FailureRate})
		c.addf(e.LatencyFactor != 0 && e.LatencyFactor <= 1, "ejection.latencyFactor: want more than 1")
		c.share("ejection.maxShare", e.MaxShare)
	}
	if b := p.Budget; b != nil {
		c.share("retryBudget.share", b.Share)
		c.addf(b.PerSecond < 0 || b.PerSecond > 1_000_000, "retryBudget.perSecond: want 0 to 1000000")
	}
	c.method("default", &p.Default)
	c.addf(p.Default.Degrade != nil, "default.degrade: only methods that are named are degraded")
	c.addf(len(p.Methods) > maxMethods, "methods: more than %d", maxMethods)
	for name, m := range p.Methods {
		service, method, ok := cutMethod(name)
		c.addf(!ok || service == "" || method == "", "methods: %.100q is not Service.Method or Service.*", name)
		c.method(fmt.Sprintf("methods[%.100q]", name), &m)
	}
	c.routes(p.Routes)
	return errors.Join(c...)
}

// cutMethod splits a name at its last dot.
func cutMethod(name string) (service, method string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// checks are the errors found so far.
type checks []error

func (c *checks) addf(wrong bool, format string, args ...any) {
	if wrong {
		*c = append(*c, fmt.Errorf("policy: "+format, args...))
	}
}

func (c *checks) duration(field string, d Duration) {
	c.addf(d < 0 || time.Duration(d) > 24*time.Hour, "%s: want 0s to 24h", field)
}

func (c *checks) share(field string, f float64) {
	c.addf(f < 0 || f > 1, "%s: want 0 to 1", field)
}

// limits checks the common fields of ejection and breakers.
func (c *checks) limits(field string, b Breaker) {
	c.duration(field+".window", b.Window)
	c.duration(field+".pause", b.Pause)
	c.duration(field+".maxPause", b.MaxPause)
	c.addf(b.MaxPause != 0 && b.MaxPause < b.Pause, "%s.maxPause: less than the first pause", field)
	c.addf(b.MinCalls < 0, "%s.minCalls: negative", field)
	c.share(field+".failureRate", b.FailureRate)
}

func (c *checks) method(field string, m *Method) {
	c.duration(field+".timeout", m.Timeout)
	c.duration(field+".attemptTimeout", m.AttemptTimeout)
	c.addf(m.FailMode != "" && !slices.Contains(FailModes(), m.FailMode), "%s.failMode: %q is none of %s", field, m.FailMode, strings.Join(FailModes(), ", "))
	c.addf(m.Retries != nil && (*m.Retries < 0 || *m.Retries > 10), "%s.retries: want 0 to 10", field)
	if b := m.Breaker; b != nil {
		c.limits(field+".breaker", *b)
	}
	c.degrade(field+".degrade", m.Degrade)
}

// For returns how calls of a method are made: what the policy says for the method, for its
// service, and for all methods, in this order, field by field.
func (p *Policy) For(method string) Method {
	m := p.Methods[method]
	if service, _, ok := cutMethod(method); ok {
		m.inherit(p.Methods[service+".*"])
	}
	m.inherit(p.Default)
	return m
}

// inherit sets the zero fields of m to those of n.
func (m *Method) inherit(n Method) {
	m.Timeout = either(m.Timeout, n.Timeout)
	m.AttemptTimeout = either(m.AttemptTimeout, n.AttemptTimeout)
	m.FailMode = either(m.FailMode, n.FailMode)
	m.Retries = either(m.Retries, n.Retries)
	m.Idempotent = either(m.Idempotent, n.Idempotent)
	m.Breaker = either(m.Breaker, n.Breaker)
	m.Degrade = either(m.Degrade, n.Degrade)
}

// sorted yields the pairs of a map by key, so that errors and texts have a fixed order.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

func either[T comparable](a, b T) T {
	var zero T
	if a == zero {
		return b
	}
	return a
}
