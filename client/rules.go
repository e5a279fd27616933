package client

import (
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/resilience"
)

// rules is how a client treats its calls: its options, and over them its policy. They
// don't change; another policy makes other rules. What is in them counts from one call
// to the next, all together.
type rules struct {
	// What every call looks at comes first and is together: with thousands of clients
	// none of it is in a cache.
	named    bool // the policy names methods or services
	breakers bool // some method has a breaker
	timed    bool // the balancer, a breaker or the ejection looks at latencies
	loaded   bool // the balancer looks at what servers say about their load
	all      rule // methods that the policy does not name

	methods  map[string]*rule
	services map[string]*rule // for those of their methods that methods does not name

	version     string // of the policy; "" without one
	balancer    balance.Policy
	needs       balance.Needs    // the balancer's
	steps       *policy.Balancer // of which the policy made it; nil if the options did
	ejection    *Ejection        // nil: no instance is left out
	maxShare    float64          // of the instances that may be left out
	every       time.Duration    // is looked for outliers
	budgetShare float64
	budgetRate  int
}

// rule is how calls of one method are treated.
type rule struct {
	failMode       tandem.FailMode
	idempotent     bool
	timeout        time.Duration
	attemptTimeout time.Duration
	retries        int
	breaker        *resilience.BreakerConfig // nil for none
}

// failModeNames are what policies call the fail modes.
var failModeNames = map[string]tandem.FailMode{
	"failfast": Failfast, "failover": Failover, "failtry": Failtry, "failsafe": Failsafe,
	"failback": Failback, "backup": Backup, "broadcast": Broadcast, "fork": Fork,
}

// newRules puts a valid policy over the options; nil is none.
func newRules(o *options, p *policy.Policy, version string) *rules {
	if p == nil {
		p = new(policy.Policy)
	}
	r := &rules{
		version: version, ejection: overlayEjection(o.ejection, p.Ejection), budgetShare: o.budgetShare, budgetRate: o.budgetRate,
	}
	var outliers resilience.OutlierConfig // the default holds for suspects when nobody is ejected
	if e := r.ejection; e != nil {
		outliers = e.Outliers
	}
	complete := resilience.NewOutliers(outliers).Config()
	r.maxShare, r.every = complete.MaxShare, complete.Every
	if b := p.Balancer; b != nil {
		steps := *b
		r.steps = &steps
	}
	r.balancer = balancerOf(o, r.steps)
	if b := p.Budget; b != nil {
		r.budgetShare, r.budgetRate = b.Share, b.PerSecond
	}
	r.all = newRule(o, p.Default)
	r.breakers = r.all.breaker != nil
	if len(p.Methods) > 0 {
		r.named = true
		r.methods, r.services = map[string]*rule{}, map[string]*rule{}
	}
	for name := range p.Methods {
		m := newRule(o, p.For(name))
		r.breakers = r.breakers || m.breaker != nil
		if service, all := strings.CutSuffix(name, ".*"); all {
			r.services[service] = &m
		} else {
			r.methods[name] = &m
		}
	}
	r.needs = r.balancer.Needs()
	r.timed = r.ejection != nil || r.breakers || r.needs.Latency
	r.loaded = r.needs.Load
	return r
}

func newRule(o *options, m policy.Method) rule {
	r := rule{
		timeout: o.timeout, attemptTimeout: o.attemptTimeout, failMode: o.failMode, retries: o.retries,
		breaker: overlayBreaker(o.breaker, m.Breaker),
	}
	override(&r.timeout, time.Duration(m.Timeout))
	override(&r.attemptTimeout, time.Duration(m.AttemptTimeout))
	override(&r.failMode, failModeNames[m.FailMode])
	if m.Retries != nil {
		r.retries = *m.Retries
	}
	if m.Idempotent != nil {
		r.idempotent = *m.Idempotent
	}
	return r
}

// override replaces what the options say by what the policy says, if it does.
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

// picks are what policies call the ways to choose.
var picks = map[string]func() balance.Policy{
	"p2c": balance.P2C, "round-robin": balance.RoundRobin, "random": balance.Random,
	"least-in-flight": balance.LeastInFlight, "shortest-latency": balance.ShortestLatency,
	"least-loaded": balance.LeastLoaded, "least-reported": balance.LeastReported,
	"ring-hash": balance.RingHash, "maglev": balance.Maglev, "jump-hash": balance.JumpHash,
}

// balancerOf returns the balancer that a policy describes, or else that of the options.
// A client always keeps to routes.
func balancerOf(o *options, b *policy.Balancer) balance.Policy {
	p := o.policy
	if b != nil {
		p = picks[b.Pick]()
		if b.SlowStart > 0 {
			p = balance.SlowStart(time.Duration(b.SlowStart), p)
		}
		if b.Zone != "" {
			p = balance.Zone(b.Zone, p)
		}
		if b.Sticky { // outside of what would else send a key to many, or call it off
			p = balance.Sticky(p)
		}
	}
	if !p.Needs().Route {
		p = balance.Route(p)
	}
	return p
}

// sameBalancer reports whether two rules have balancers that were made of the same, so
// that one can go on in the other's place.
func (r *rules) sameBalancer(other *rules) bool {
	if r.steps == nil || other.steps == nil {
		return r.steps == other.steps
	}
	return *r.steps == *other.steps
}

// of returns the rule for a method.
func (r *rules) of(method string) *rule {
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

// ruleOf returns the rule that a call began with.
func (c *Client) ruleOf(call *tandem.Call) *rule {
	if o, ok := outgoing(call); ok {
		if r, ok := o.Rule.(*rule); ok {
			return r
		}
	}
	return c.rules.Load().of(call.Method)
}
