// Package pool holds a client's connections to the instances of its target, and makes the
// attempts of calls: it chooses an instance that is connected and well, waits for a
// connection where that may help, and records how the attempt ended.
package pool

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/resilience"
)

// Config is what a Pool needs to know. All fields but those of the throttle must be set.
type Config struct {
	Target string // without secrets; for errors
	Life   *Life
	Log    *slog.Logger
	Rules  *atomic.Pointer[rules.Rules] // [Pool.Steer] replaces them
	Budget *resilience.Budget

	// Serves reports whether Connect knows the transport and the protocol of an endpoint.
	Serves func(tandem.Endpoint) bool
	// Connect connects to an instance.
	Connect func(ctx context.Context, instance string, ep tandem.Endpoint) (*Conn, error)

	Connections    int           // number of connections to each instance
	ConnectTimeout time.Duration // timeout of one attempt to connect
	Wait           time.Duration // see package client's WithWait
	Backoff        resilience.Backoff
	HealthCheck    time.Duration // interval of the pings on a silent connection; 0 for no health checks
	Silence        time.Duration // time after which a connection that does not answer is given up

	// The constants of package client's Throttle; ThrottleSent is 0 for no throttle.
	ThrottleSent                                              float64
	ThrottleAccepted                                          int
	ThrottleFades, ThrottleProbe, ThrottleEnds, ThrottlePause time.Duration
}

// Pool holds the instances of a target and the connections to them. It is safe for concurrent
// use.
type Pool struct {
	// What every attempt needs comes first.
	rules  *atomic.Pointer[rules.Rules]
	view   atomic.Pointer[view] // nil until the first list
	closed atomic.Bool          // set under mu
	usable func(*balance.Node) bool
	health health

	cfg         Config
	ready       readiness
	prober      prober
	unreachable chan struct{} // has a token when no instance has a connection; nil if the list is fixed

	mu      sync.Mutex         // held to change the view
	table   *balance.Table     // also keeps the statistics of instances that have left
	retired map[*Conn]struct{} // connections that take no more calls, but have calls in flight
	first   chan struct{}      // closed when the first list has come, or none will come
	listed  time.Time          // when the registry last delivered the list; zero before the first
	failing time.Time          // since when the registry has failed; zero while it answers
}

// Init makes p ready for use, without instances. It must be called once, before anything else.
func (p *Pool) Init(cfg Config) {
	p.cfg, p.rules = cfg, cfg.Rules
	p.table = balance.NewTable(cfg.Rules.Load().Balancer)
	p.first = make(chan struct{})
	p.usable = p.isUsable
	p.ready.lost, p.ready.hopeful = time.Now(), true
	p.health.init(p)
	if cfg.HealthCheck > 0 {
		p.prober.pool, p.prober.interval = p, cfg.HealthCheck
		p.prober.begin()
	}
}

// Unreachable returns a channel that receives when no instance has a connection. It must be
// called before the first [Pool.Update].
func (p *Pool) Unreachable() <-chan struct{} {
	p.unreachable = make(chan struct{}, 1)
	return p.unreachable
}

// Update applies a new list: it connects to new instances, and closes the links to those that
// have left, whose calls in flight go on.
func (p *Pool) Update(v adapter.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return
	}
	p.dateLocked(v.Stale)
	p.table.Update(v.Instances)
	p.arrangeLocked(v)
}

// arrangeLocked connects to the instances of the list that the balancer wants.
func (p *Pool) arrangeLocked(v adapter.View) {
	old, wanted := p.view.Load(), p.wanted(v.Instances)
	next := make(map[string]*member, len(wanted))
	for _, n := range p.table.Nodes() {
		in := &n.Instance
		m := old.memberOf(in.ID)
		connectedForCall := !wanted[in.ID]
		if connectedForCall && (m == nil || !m.used.Swap(false)) {
			continue
		}
		if m == nil || !slices.Equal(m.instance.Endpoints, in.Endpoints) {
			m = p.join(in)
		}
		m.instance = in
		m.connectedForCall.Store(connectedForCall)
		next[in.ID] = m
	}
	for m := range old.all() {
		if next[m.instance.ID] != m {
			m.leave()
		}
	}
	p.publish(v, next)
}

// join starts the links to a new instance.
func (p *Pool) join(in *tandem.Instance) *member {
	m := &member{
		instance: in, peer: &tandem.Peer{Instance: in.ID}, breaker: p.health.breaker(in.ID),
	}
	if m.links = m.one[:]; p.cfg.Connections > 1 {
		m.links = make([]link, p.cfg.Connections)
	}
	for i := range m.links {
		m.links[i].init(p, in.ID, p.endpoint(in))
		m.links[i].begin()
	}
	return m
}

// leave closes the links to an instance that is not called any more.
func (m *member) leave() {
	for i := range m.links {
		m.links[i].close()
	}
}

// endpoint returns the first endpoint whose transport and protocol the client has; else the
// first.
func (p *Pool) endpoint(in *tandem.Instance) tandem.Endpoint {
	for _, ep := range in.Endpoints {
		if p.cfg.Serves(ep) {
			return ep
		}
	}
	return in.Endpoints[0]
}

// publish makes the list visible to calls, with its members by ID.
func (p *Pool) publish(list adapter.View, members map[string]*member) {
	v := &view{suspects: list.Suspect, withheld: list.Withheld, stale: list.Stale}
	v.nodes, v.picker = p.table.Current()
	v.members = make([]*member, len(v.nodes))
	for i, n := range v.nodes {
		v.members[i] = members[n.Instance.ID]
	}
	v.index()
	if len(v.nodes) == 1 && !p.rules.Load().Routed { // else it depends on the call
		v.sole = v.picker.Pick(new(tandem.Call), func(*balance.Node) bool { return true })
		v.only = v.members[0]
	}
	p.view.Store(v)
	p.health.count()
	p.openFirst()
}

func (p *Pool) openFirst() {
	select {
	case <-p.first:
	default:
		close(p.first)
	}
}

// Steer switches the client to other rules. The statistics of the instances are kept.
func (p *Pool) Steer(r *rules.Rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return
	}
	old := p.rules.Swap(r)
	if old.BudgetShare != r.BudgetShare || old.BudgetRate != r.BudgetRate {
		p.cfg.Budget.Set(r.BudgetShare, r.BudgetRate, time.Now())
	}
	p.health.steer(p.view.Load())
	if !old.SameBalancer(r) {
		p.table.SetPolicy(r.Balancer)
	}
	switch {
	case p.view.Load() == nil: // the first list will do the rest
	case old.SameBalancer(r):
		p.health.count()
	default:
		p.arrangeLocked(p.view.Load().list())
	}
}

// GiveUp records that no list will come.
func (p *Pool) GiveUp(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready.abandon()
	p.dateLocked(err)
	if p.view.Load() == nil {
		p.publish(adapter.View{Stale: err}, nil)
	}
}

// Alive reports whether an instance still answers. The registry's keeper asks it about suspects.
func (p *Pool) Alive(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.view.Load().memberOf(id)
	return m != nil && m.well()
}

func (m *member) live() bool {
	for i := range m.links {
		if m.links[i].live.Load() != nil {
			return true
		}
	}
	return false
}

// keep remembers a connection that is finishing its calls, so that Close ends it.
func (p *Pool) keep(s *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		s.Close()
		return
	}
	for old := range p.retired {
		if old.Err() != nil {
			delete(p.retired, old)
		}
	}
	if s.Err() == nil {
		if p.retired == nil {
			p.retired = make(map[*Conn]struct{})
		}
		p.retired[s] = struct{}{}
	}
}

// Close fails the calls in flight and ends all connections. It waits for no goroutine: see
// [Life.End].
func (p *Pool) Close() {
	p.prober.end()
	p.mu.Lock()
	p.closed.Store(true)
	retired := p.retired
	p.retired = nil
	for m := range p.view.Load().all() {
		for i := range m.links {
			if s := m.links[i].live.Load(); s != nil {
				s.Close()
			}
		}
		m.leave()
	}
	p.openFirst()
	p.ready.abandon()
	p.health.endForces()
	p.mu.Unlock()
	for s := range retired {
		s.Close()
	}
}
