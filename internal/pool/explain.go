package pool

import (
	"maps"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/resilience"
)

// Explained describes an attempt; it is passed to [tandem.Call.Explain].
type Explained struct {
	Method, Target  string
	Policy, Version string  // the balancing policy's name, and the version of the client's policy
	Budget          float64 // attempts that the retry budget allows now
	Stale           string  // why the list may be old
	Attempt         Attempt
}

// Attempt is an attempt of [Explained], with what was known of the instances.
type Attempt struct {
	Number    int
	Began     time.Time
	Took      time.Duration
	Instances []InstanceState
	Route     *policy.Decision // nil if the policy has no routes
	Steps     []balance.Step
	Chosen    string // ID of the instance; "" if there was none
	Error     string
}

// InstanceState is what is known of an instance. Its fields are those of package client's
// InstanceState.
type InstanceState struct {
	ID       string
	Unusable string
	Suspect  string
	Breaker  string
	Since    time.Time
	Why      string
	Forced   time.Time
	Method   string
	Throttle float64
	InFlight int64
	Latency  time.Duration
	Calls    uint64
	Failed   uint64
	Weight   int
}

// Explain explains where the call would go now, without making it.
func (p *Pool) Explain(call *tandem.Call) Explained {
	if v := p.view.Load(); v != nil {
		return p.concluded(*p.explain(v, call))
	}
	return p.concluded(Explained{Method: call.Method})
}

// Withheld returns the listed instances that get no calls, as operators have set, by ID, and why.
// The map must not be changed.
func (p *Pool) Withheld() map[string]string {
	if v := p.view.Load(); v != nil {
		return v.withheld
	}
	return nil
}

// explain records what is known of the instances before an attempt chooses one.
func (p *Pool) explain(v *view, call *tandem.Call) *Explained {
	x := &Explained{Method: call.Method, Attempt: Attempt{Number: call.Attempt, Began: time.Now()}}
	if v.stale != nil {
		x.Stale = v.stale.Error()
	}
	for _, n := range v.nodes {
		x.Attempt.Instances = append(x.Attempt.Instances, p.stateOf(v, n, call))
	}
	for _, id := range slices.Sorted(maps.Keys(v.withheld)) {
		x.Attempt.Instances = append(x.Attempt.Instances, InstanceState{ID: id, Unusable: v.withheld[id], Breaker: resilience.BreakerClosed.String()})
	}
	usable := func(n *balance.Node) bool { return p.unusable(v, n, call) == "" }
	x.Attempt.Route = rules.Decide(v.picker, call, usable)
	x.Attempt.Steps = p.table.Explain(call, usable).Steps
	return x
}

// concluded fills in what counts at the end of an attempt.
func (p *Pool) concluded(x Explained) Explained {
	r := p.rules.Load()
	x.Target, x.Policy, x.Version = p.cfg.Target, r.Balancer.Name(), r.Version
	x.Budget = p.cfg.Budget.Left(time.Now())
	return x
}

// tell completes the description of an attempt and passes it to the call's Explain.
func (p *Pool) tell(x *Explained, call *tandem.Call, err error) {
	x.Attempt.Took = time.Since(x.Attempt.Began)
	x.Attempt.Chosen = call.Peer.Instance
	if err != nil {
		x.Attempt.Error = err.Error()
	}
	call.Explain(p.concluded(*x))
}

func (p *Pool) stateOf(v *view, n *balance.Node, call *tandem.Call) InstanceState {
	ended, failed := n.Stats.Calls()
	s := InstanceState{
		ID: n.Instance.ID, Unusable: p.unusable(v, n, call), Suspect: p.suspicion(v, n), Breaker: resilience.BreakerClosed.String(),
		InFlight: n.Stats.InFlight(), Latency: n.Stats.Latency(), Calls: ended, Failed: failed, Weight: n.Weight(),
	}
	if m := v.member(n); m != nil {
		now := balance.Now()
		s.Breaker = m.breaker.State(now).String()
		if since, changed := m.breaker.Since(now); changed {
			s.Since = time.Now().Add(since - now)
		}
		s.Forced = p.health.forcedUntil(n.Instance.ID)
		if why := m.why.Load(); why != nil && !m.breaker.Closed() && s.Forced.IsZero() {
			s.Why = *why
		}
		s.Throttle = m.throttles.share(call.Method, &p.cfg)
		if call.Method == "" { // it is about instances alone, and there is no such method to keep a breaker for
			return s
		}
		if b := p.health.method(m, call); b != nil {
			s.Method = b.State(balance.Now()).String()
		}
	}
	return s
}

// unusable returns why the call can't go to an instance now, "" if it can.
func (p *Pool) unusable(v *view, n *balance.Node, call *tandem.Call) string {
	m := v.member(n)
	switch {
	case call.Pin != "" && call.Pin != n.Instance.ID:
		return "the call names another instance"
	case slices.Contains(call.Exclude, n.Instance.ID):
		return "tried already"
	case m == nil:
		return "not in this client's subset"
	case !m.live():
		return "not connected"
	case !m.well() && !p.health.panics(v):
		return "suspect: it does not answer pings"
	case m.isForcedOpen():
		return "its circuit breaker is " + p.health.forcedText(n.Instance.ID)
	case p.health.open(m, call):
		return "the method's circuit breaker is open"
	case !m.breaker.Closed() && !p.health.passes(v, m):
		return "ejected: its circuit breaker is open"
	}
	return ""
}
