// Package rules compiles a client's options, overlaid by its policy, so that a call finds
// its rule with at most two look-ups. For tandem's own packages only.
package rules

import (
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/resilience"
)

// Rules say how a client treats its calls: its options, overlaid by its policy. Rules don't
// change: a new policy makes new rules, and a swap takes effect atomically, for calls that
// begin after it.
type Rules struct {
	// The fields that every call reads are together, so they share cache lines: with thousands
	// of clients none of them is in the cache.
	named    bool // the policy names methods or services
	Breakers bool // some method has a breaker
	Timed    bool // the balancer, a breaker or the ejection uses latencies
	Loaded   bool // the balancer uses load reports of servers
	Routed   bool // the policy has routes
	Draws    bool // some route divides calls by weight, so that calls need Call.Draw
	all      Rule // the rule of methods that the policy does not name

	methods  map[string]*Rule
	services map[string]*Rule // rules of methods that are not in methods, by service

	Version     string // version of the policy; "" without one
	Balancer    balance.Policy
	Needs       balance.Needs    // the Needs of Balancer
	routes      *routeTable      // nil for none
	steps       *policy.Balancer // the policy's description of Balancer; nil if Balancer is from the options
	Ejection    *Ejection        // nil: no instance is ejected
	MaxShare    float64          // share of the instances that may be ejected
	Every       time.Duration    // interval between outlier checks
	BudgetShare float64
	BudgetRate  int
	Said        Said // what the policy sets for all methods: SaidBalancer to SaidRoutes
}

// Said is a set of what a policy sets. The rest is as the options say.
type Said uint16

// What a policy may set.
const (
	SaidTimeout Said = 1 << iota
	SaidAttemptTimeout
	SaidFailMode
	SaidRetries
	SaidIdempotent
	SaidBreaker
	SaidBalancer
	SaidEjection
	SaidBudget
	SaidRoutes
)

// Has reports whether the policy sets it.
func (s Said) Has(one Said) bool { return s&one != 0 }

// with returns s with one, if that is said.
func (s Said) with(one Said, said bool) Said {
	if said {
		return s | one
	}
	return s
}

// Rule says how calls of one method are treated.
type Rule struct {
	FailMode       tandem.FailMode
	Idempotent     bool
	Said           Said // what the policy sets for the method: SaidTimeout to SaidBreaker
	Timeout        time.Duration
	AttemptTimeout time.Duration
	Retries        int
	Breaker        *resilience.BreakerConfig // nil for none
	Degrade        *policy.Degrade           // nil for none
}

// Base holds the settings of a client's options.
type Base struct {
	Self           Self
	Balancer       balance.Policy
	FailMode       tandem.FailMode
	Timeout        time.Duration
	AttemptTimeout time.Duration
	Retries        int
	BudgetShare    float64
	BudgetRate     int
	Ejection       *Ejection                 // nil for none
	Breaker        *resilience.BreakerConfig // nil for none
}

// Ejection is client.Ejection, which documents it.
type Ejection struct {
	Outliers resilience.OutlierConfig `json:"outliers,omitzero"`
	Breaker  resilience.BreakerConfig `json:"breaker,omitzero"`
}

// failModes maps the names in policies to fail modes.
var failModes = map[string]tandem.FailMode{
	"failfast": tandem.Failfast, "failover": tandem.Failover, "failtry": tandem.Failtry, "failsafe": tandem.Failsafe,
	"failback": tandem.Failback, "backup": tandem.Backup, "broadcast": tandem.Broadcast, "fork": tandem.Fork,
}

// New returns the options overlaid by a valid policy; p may be nil.
func New(o *Base, p *policy.Policy, version string) *Rules {
	if p == nil {
		p = new(policy.Policy)
	}
	r := &Rules{
		Version: version, Ejection: overlayEjection(o.Ejection, p.Ejection), BudgetShare: o.BudgetShare, BudgetRate: o.BudgetRate,
	}
	var outliers resilience.OutlierConfig // the default holds for suspects when no instance is ejected
	if e := r.Ejection; e != nil {
		outliers = e.Outliers
	}
	complete := resilience.NewOutliers(outliers).Config()
	r.MaxShare, r.Every = complete.MaxShare, complete.Every
	if b := p.Balancer; b != nil {
		steps := *b
		r.steps = &steps
	}
	r.Balancer = balancerOf(o, r.steps)
	r.setRoutes(o, p.Routes)
	if b := p.Budget; b != nil {
		r.BudgetShare, r.BudgetRate = b.Share, b.PerSecond
	}
	r.all = newRule(o, p.Default)
	r.Breakers = r.all.Breaker != nil
	if len(p.Methods) > 0 {
		r.named = true
		r.methods, r.services = map[string]*Rule{}, map[string]*Rule{}
	}
	for name := range p.Methods {
		m := newRule(o, p.For(name))
		r.Breakers = r.Breakers || m.Breaker != nil
		if service, all := strings.CutSuffix(name, ".*"); all {
			r.services[service] = &m
		} else {
			r.methods[name] = &m
		}
	}
	r.Said = r.Said.with(SaidBalancer, p.Balancer != nil).with(SaidEjection, p.Ejection != nil).with(SaidBudget, p.Budget != nil).
		with(SaidRoutes, r.Routed)
	r.Needs = r.Balancer.Needs()
	r.Timed = r.Ejection != nil || r.Breakers || r.Needs.Latency
	r.Loaded = r.Needs.Load
	return r
}

func newRule(o *Base, m policy.Method) Rule {
	r := Rule{
		Timeout: o.Timeout, AttemptTimeout: o.AttemptTimeout, FailMode: o.FailMode, Retries: o.Retries,
		Breaker: overlayBreaker(o.Breaker, m.Breaker), Degrade: m.Degrade,
	}
	override(&r.Timeout, time.Duration(m.Timeout))
	override(&r.AttemptTimeout, time.Duration(m.AttemptTimeout))
	override(&r.FailMode, failModes[m.FailMode])
	if m.Retries != nil {
		r.Retries = *m.Retries
	}
	if m.Idempotent != nil {
		r.Idempotent = *m.Idempotent
	}
	r.Said = r.Said.with(SaidTimeout, m.Timeout != 0).with(SaidAttemptTimeout, m.AttemptTimeout != 0).
		with(SaidFailMode, m.FailMode != "").with(SaidRetries, m.Retries != nil).
		with(SaidIdempotent, m.Idempotent != nil).with(SaidBreaker, m.Breaker != nil)
	return r
}

// FailModeName returns the name of a fail mode in policies; "default" for FailDefault.
func FailModeName(m tandem.FailMode) string {
	for name, mode := range failModes {
		if mode == m {
			return name
		}
	}
	return "default"
}

// override sets *option to said unless said is zero.
func override[T comparable](option *T, said T) {
	var nothing T
	if said != nothing {
		*option = said
	}
}

func overlayBreaker(o *resilience.BreakerConfig, b *policy.Breaker) *resilience.BreakerConfig {
	switch {
	case b == nil:
		return o
	case b.Off:
		return nil
	}
	var c resilience.BreakerConfig
	if o != nil {
		c = *o
	}
	override(&c.Window, time.Duration(b.Window))
	override(&c.MinCalls, b.MinCalls)
	override(&c.FailureRate, b.FailureRate)
	override(&c.Consecutive, b.Consecutive)
	override(&c.Pause, time.Duration(b.Pause))
	override(&c.MaxPause, time.Duration(b.MaxPause))
	return &c
}

func overlayEjection(o *Ejection, e *policy.Ejection) *Ejection {
	switch {
	case e == nil:
		return o
	case e.Off:
		return nil
	}
	var c Ejection
	if o != nil {
		c = *o
	}
	override(&c.Outliers.Window, time.Duration(e.Window))
	override(&c.Outliers.MinCalls, e.MinCalls)
	override(&c.Outliers.FailureRate, e.FailureRate)
	override(&c.Outliers.LatencyFactor, e.LatencyFactor)
	override(&c.Outliers.MaxShare, e.MaxShare)
	override(&c.Breaker.Consecutive, e.Consecutive)
	override(&c.Breaker.Pause, time.Duration(e.Pause))
	override(&c.Breaker.MaxPause, time.Duration(e.MaxPause))
	return &c
}

// picks maps the names in policies to balancers.
var picks = map[string]func() balance.Policy{
	"p2c": balance.P2C, "round-robin": balance.RoundRobin, "random": balance.Random,
	"least-in-flight": balance.LeastInFlight, "shortest-latency": balance.ShortestLatency,
	"least-loaded": balance.LeastLoaded, "least-reported": balance.LeastReported,
	"ring-hash": balance.RingHash, "maglev": balance.Maglev, "jump-hash": balance.JumpHash,
}

// balancerOf returns the balancer that a policy describes, or else that of the options.
// Either way it keeps to the routes of calls.
func balancerOf(o *Base, b *policy.Balancer) balance.Policy {
	p := o.Balancer
	if b != nil {
		p = picks[b.Pick]()
		if b.SlowStart > 0 {
			p = balance.SlowStart(time.Duration(b.SlowStart), p)
		}
		if b.Zone != "" {
			p = balance.Zone(b.Zone, p)
		}
		if b.Sticky { // outermost: the others could send a key to several instances, or away from its own
			p = balance.Sticky(p)
		}
	}
	if !p.Needs().Route {
		p = balance.Route(p)
	}
	return p
}

// SameBalancer reports whether both rules have balancers with the same settings, so that the
// pickers of one can stay.
func (r *Rules) SameBalancer(other *Rules) bool {
	if !r.routes.same(other.routes) {
		return false
	}
	if r.steps == nil || other.steps == nil {
		return r.steps == other.steps
	}
	return *r.steps == *other.steps
}

// Of returns the rule for a method.
func (r *Rules) Of(method string) *Rule {
	if !r.named {
		return &r.all
	}
	if m := r.methods[method]; m != nil {
		return m
	}
	if len(r.services) > 0 {
		if i := strings.LastIndexByte(method, '.'); i >= 0 {
			if m := r.services[method[:i]]; m != nil {
				return m
			}
		}
	}
	return &r.all
}
