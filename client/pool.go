package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/wire"
)

// pool holds the instances of the target and the connections to them.
type pool struct {
	client *Client
	view   atomic.Pointer[view] // nil until the first list
	closed atomic.Bool          // set under mu
	usable func(*balance.Node) bool
	health health

	ready       readiness
	unreachable chan struct{} // has a token when no instance has a connection; nil if the list is fixed

	mu      sync.Mutex         // held to change the view
	table   *balance.Table     // also keeps the statistics of instances that have left
	retired map[*live]struct{} // with calls in flight
	first   chan struct{}      // closed when there is a view, or there will be none
}

// view is the list of instances that calls use. It is replaced as a whole.
type view struct {
	sole     *balance.Node // the only node, if it takes calls without a route
	only     *member       // of sole; nil if the client does not connect to it
	picker   balance.Picker
	nodes    []*balance.Node
	members  []*member             // of nodes, in their order; nil for those that the client does not connect to
	places   map[*balance.Node]int // index in nodes and members; nil for a few nodes
	byID     map[string]int        // likewise, by ID
	suspects map[string]bool       // of the registry, by ID
	stale    error
}

// few is the number of instances up to which a search is quicker than a map.
const few = 8

// index makes the maps of a view with many nodes.
func (v *view) index() {
	if len(v.nodes) <= few {
		return
	}
	v.places, v.byID = make(map[*balance.Node]int, len(v.nodes)), make(map[string]int, len(v.nodes))
	for i, n := range v.nodes {
		v.places[n], v.byID[n.Instance.ID] = i, i
	}
}

// place returns the index of a node, -1 for one of another list.
func (v *view) place(n *balance.Node) int {
	if v.places == nil {
		return slices.Index(v.nodes, n)
	}
	if i, ok := v.places[n]; ok {
		return i
	}
	return -1
}

// member returns the connections to an instance, nil if there are none.
func (v *view) member(n *balance.Node) *member {
	if n == v.sole && v.only != nil {
		return v.only // it is next to sole: the rest is not in the cache if there are many clients
	}
	if i := v.place(n); i >= 0 {
		return v.members[i]
	}
	return v.memberOf(n.Instance.ID) // n is of an older or a newer list
}

// placeOf returns the index of the node with that ID, -1 if there is none.
func (v *view) placeOf(id string) int {
	if v.byID == nil {
		return slices.IndexFunc(v.nodes, func(n *balance.Node) bool { return n.Instance.ID == id })
	}
	if i, ok := v.byID[id]; ok {
		return i
	}
	return -1
}

// named returns the node with that ID, nil if there is none.
func (v *view) named(id string) *balance.Node {
	if i := v.placeOf(id); i >= 0 {
		return v.nodes[i]
	}
	return nil
}

// memberOf returns the connections to the instance with that ID, nil if there are none, or v is
// nil.
func (v *view) memberOf(id string) *member {
	if v == nil {
		return nil
	}
	if i := v.placeOf(id); i >= 0 {
		return v.members[i]
	}
	return nil
}

// list returns the registry's list that the view was made of.
func (v *view) list() registry.View {
	list := registry.View{Suspect: v.suspects, Stale: v.stale}
	for _, n := range v.nodes {
		list.Instances = append(list.Instances, n.Instance)
	}
	return list
}

// all returns the instances that the client connects to; none if v is nil.
func (v *view) all() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		if v == nil {
			return
		}
		for _, m := range v.members {
			if m != nil && !yield(m) {
				return
			}
		}
	}
}

// member is an instance with its connections.
type member struct {
	peer      *tandem.Peer // of calls that wait for a connection
	guest     atomic.Bool  // the policy does not want a connection to it; a call did
	links     []link
	one       [1]link // the memory of links, if there is one
	breaker   *resilience.Breaker
	throttles throttles
	used      atomic.Bool                                    // by a call as a guest, since the last list
	lost      atomic.Pointer[live]                           // the last connection whose end was counted
	slow      atomic.Int64                                   // ns; latency from which on calls were too slow, if it was ejected for that; else 0
	methods   atomic.Pointer[map[string]*resilience.Breaker] // replaced as a whole; nil at first

	instance *tandem.Instance // of its node; guarded by the mutex of its pool
}

func (p *pool) init(c *Client) {
	p.client, p.table = c, balance.NewTable(c.rules.Load().Balancer)
	p.first = make(chan struct{})
	p.usable = p.isUsable
	p.ready.lost, p.ready.hopeful = time.Now(), true
	p.health.init(p)
}

// update applies a new list: it connects to new instances, and closes the links to those that
// have left, whose calls in flight go on.
func (p *pool) update(v registry.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return
	}
	p.table.Update(v.Instances)
	p.arrangeLocked(v)
}

// arrangeLocked connects to the instances of the list that the balancer wants.
func (p *pool) arrangeLocked(v registry.View) {
	old, wanted := p.view.Load(), p.wanted(v.Instances)
	next := make(map[string]*member, len(wanted))
	for _, n := range p.table.Nodes() {
		in := &n.Instance
		m := old.memberOf(in.ID)
		guest := !wanted[in.ID]
		if guest && (m == nil || !m.used.Swap(false)) {
			continue
		}
		if m == nil || !slices.Equal(m.instance.Endpoints, in.Endpoints) {
			m = p.join(in)
		}
		m.instance = in
		m.guest.Store(guest)
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
func (p *pool) join(in *tandem.Instance) *member {
	m := &member{
		instance: in, peer: &tandem.Peer{Instance: in.ID}, breaker: p.health.breaker(),
	}
	if m.links = m.one[:]; p.client.opts.connections > 1 {
		m.links = make([]link, p.client.opts.connections)
	}
	for i := range m.links {
		m.links[i].init(p.client, in.ID, p.endpoint(in))
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
func (p *pool) endpoint(in *tandem.Instance) tandem.Endpoint {
	for _, ep := range in.Endpoints {
		if _, known := p.client.opts.protocol(ep); known && p.client.opts.transports[ep.Transport] != nil {
			return ep
		}
	}
	return in.Endpoints[0]
}

// publish makes the list visible to calls, with its members by ID.
func (p *pool) publish(list registry.View, members map[string]*member) {
	v := &view{suspects: list.Suspect, stale: list.Stale}
	v.nodes, v.picker = p.table.Current()
	v.members = make([]*member, len(v.nodes))
	for i, n := range v.nodes {
		v.members[i] = members[n.Instance.ID]
	}
	v.index()
	if len(v.nodes) == 1 {
		v.sole = v.picker.Pick(new(tandem.Call), func(*balance.Node) bool { return true })
		v.only = v.members[0]
	}
	p.view.Store(v)
	p.health.count()
	p.openFirst()
}

func (p *pool) openFirst() {
	select {
	case <-p.first:
	default:
		close(p.first)
	}
}

// steer switches the client to other rules. The statistics of the instances are kept.
func (p *pool) steer(r *rules.Rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return
	}
	old := p.client.rules.Swap(r)
	if old.BudgetShare != r.BudgetShare || old.BudgetRate != r.BudgetRate {
		p.client.budget.Set(r.BudgetShare, r.BudgetRate, time.Now())
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

// giveUp records that no list will come.
func (p *pool) giveUp(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready.abandon()
	if p.view.Load() == nil {
		p.publish(registry.View{Stale: err}, nil)
	}
}

// alive tells the registry's keeper whether a suspect still answers.
func (p *pool) alive(id string) bool {
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
func (p *pool) keep(s *live) {
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
			p.retired = make(map[*live]struct{})
		}
		p.retired[s] = struct{}{}
	}
}

func (p *pool) close() {
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
	p.mu.Unlock()
	for s := range retired {
		s.Close()
	}
}

// attempt is one attempt of a call: its connection, and where its result is recorded.
type attempt struct {
	conn   *live
	member *member
	stats  *balance.Stats  // nil if no choice depends on it
	began  time.Duration   // by balance.Now; 0 if latencies are not needed
	report func(wire.Load) // records the load report of the response; nil if it is not needed
}

// attempt is the innermost Func: it picks an instance and makes the call on one of its
// connections. The choice is made in functions of its own, so that their frames are not on the
// stack while the call waits: the garbage collector scans the stack of each waiting caller.
func (p *pool) attempt(ctx context.Context, call *tandem.Call) error {
	v, err := p.current(ctx, call)
	if err != nil {
		return err
	}
	var x *explained
	if call.Explain != nil {
		x = p.explain(v, call)
	}
	a, err := p.begin(ctx, v, call)
	switch {
	case err != nil:
	case a.member.throttles.refuses(call.Method, p.client.opts.throttle):
		err = throttled(call, p.client.opts.throttle)
	default:
		err = a.invoke(ctx, call, p.client.opts.throttle)
	}
	if a.stats != nil {
		p.end(ctx, call, a, err)
	}
	if x != nil {
		x.tell(err)
	}
	if err != nil && a.conn != nil {
		p.awaitLeft(ctx, a.conn, err)
	}
	return err
}

// leaveWait is how long an attempt that found its connection gone waits until the link has
// noticed.
const leaveWait = 100 * time.Millisecond

// awaitLeft waits until the link has given up a connection that takes no more calls: otherwise the
// next attempt could get the same one.
func (p *pool) awaitLeft(ctx context.Context, conn *live, err error) {
	if !errors.Is(err, session.ErrDraining) {
		return
	}
	t := time.NewTimer(leaveWait)
	defer t.Stop()
	select {
	case <-conn.left:
	case <-t.C:
	case <-ctx.Done():
	case <-p.client.ctx.Done():
	}
}

// current returns the current view. It waits for the first list.
func (p *pool) current(ctx context.Context, call *tandem.Call) (*view, error) {
	if v := p.view.Load(); v != nil {
		return v, nil
	}
	if err := p.waitFirst(ctx, call); err != nil {
		return nil, err
	}
	return p.view.Load(), nil
}

// start chooses an instance and its connection. If it fails, mayWait says whether the call may
// wait for a connection and choose again.
func (p *pool) start(ctx context.Context, v *view, call *tandem.Call) (a attempt, mayWait bool, err error) {
	if p.closed.Load() {
		return attempt{}, false, unavailable("%v", errClosed)
	}
	n, m := p.pick(v, call)
	if n == nil {
		return attempt{}, len(v.nodes) == 0, p.noInstance(v, call)
	}
	if m == nil {
		if m = p.invite(n); m == nil {
			return attempt{}, true, unavailable("instance %q has just left %s", n.Instance.ID, p.client.target)
		}
	}
	s := m.link().live.Load()
	if s == nil {
		if other := p.instead(v, n, call); other != nil {
			p.health.forget(m, call)
			n, m = other, v.member(other)
		}
	}
	if m.guest.Load() {
		m.used.Store(true)
	}
	call.Peer = m.peer
	if s == nil {
		if s, err = p.connection(ctx, m.link(), call); err != nil {
			p.health.forget(m, call)
			return attempt{}, tandem.CodeOf(err) == tandem.Unavailable, err
		}
	}
	call.Peer = s.Peer()
	r := p.client.rules.Load()
	if n == v.sole && !r.Breakers { // nothing to choose by statistics
		return attempt{conn: s, member: m}, false, nil
	}
	a = attempt{conn: s, member: m, stats: n.Stats}
	if r.Timed {
		a.began = balance.Now()
	}
	if r.Loaded {
		a.report = reporter(n.Stats)
	}
	a.stats.Begin()
	return a, false, nil
}

// instead returns another instance, which is connected, in place of n, which is not; nil if
// there is none. Connected instances are chosen first, so n has lost its connection since.
func (p *pool) instead(v *view, n *balance.Node, call *tandem.Call) *balance.Node {
	if n == v.sole || call.Pin != "" {
		return nil
	}
	other := v.picker.Pick(call, func(o *balance.Node) bool {
		return o != n && allowed(call, o) && p.isUsable(o) && !p.health.open(v.member(o), call)
	})
	if other == nil || v.member(other) == nil || !p.health.admit(v, v.member(other), call) {
		return nil
	}
	return other
}

// reporter returns a function that records load reports in stats.
func reporter(stats *balance.Stats) func(wire.Load) {
	return func(l wire.Load) {
		stats.Report(balance.Load{InFlight: int(l.InFlight), Queued: int(l.Queued), Utilization: int(l.Utilization)})
	}
}

// end records how an attempt ended in the instance's statistics and breakers.
func (p *pool) end(ctx context.Context, call *tandem.Call, a attempt, err error) {
	switch {
	case call.Kind == tandem.Streaming && err == nil:
		call.OnEnd(func(err error) { p.note(call, a, 0, err) }) // how long a stream lives is no latency
	case err != nil && wasOutrun(ctx):
		outrun(a.stats, a.began)
		p.health.forget(a.member, call)
	default:
		p.note(call, a, a.began, err)
	}
}

// note records how an attempt ended; timed is when it began if its latency counts, else 0. The
// end of a connection counts as one failure, however many calls fail with it.
func (p *pool) note(call *tandem.Call, a attempt, timed time.Duration, err error) {
	if err != nil && a.conn.Err() != nil && a.member.lost.Swap(a.conn) == a.conn {
		a.stats.Done(0, false)
		p.health.forget(a.member, call)
		return
	}
	if err != nil && tandem.CodeOf(err) == tandem.ResourceExhausted {
		a.stats.RefusedAt(balance.Now())
	} else {
		a.stats.Done(timed, faulty(err))
	}
	p.health.done(a.member, call, a.began, err)
}

// link returns one of the links: one whose server answers if there is one, else one that is
// connected.
func (m *member) link() *link {
	if len(m.links) == 1 {
		return &m.links[0]
	}
	start := rand.IntN(len(m.links))
	second := &m.links[start]
	for i := range m.links {
		l := &m.links[(start+i)%len(m.links)]
		if l.well() {
			return l
		}
		if second.live.Load() == nil {
			second = l
		}
	}
	return second
}

// pick returns the instance that the policy picks, if its breakers admit the call. A half-open
// breaker may just have let another call through; then it picks again.
func (p *pool) pick(v *view, call *tandem.Call) (*balance.Node, *member) {
	n := p.best(v, call)
	if n == nil {
		return nil, nil
	}
	if m := v.member(n); p.health.admit(v, m, call) {
		return n, m
	}
	return p.pickAgain(v, call, n)
}

// pickAgain picks another instance after the breakers of n have refused the call.
func (p *pool) pickAgain(v *view, call *tandem.Call, n *balance.Node) (*balance.Node, *member) {
	for range 3 {
		other := v.picker.Pick(call, func(o *balance.Node) bool {
			return o != n && allowed(call, o) && p.isUsable(o) && !p.health.open(v.member(o), call)
		})
		if other == nil {
			break
		}
		if n = other; p.health.admit(v, v.member(n), call) {
			return n, v.member(n)
		}
	}
	if p.health.open(v.member(n), call) {
		return nil, nil
	}
	return n, v.member(n) // trying is better than giving up
}

// best asks the policy for a connected instance that is well; failing that for
// one that is connected and answers, then for one that is being connected, then for
// a suspect that is connected, then for any that the call allows, since trying is
// better than giving up.
func (p *pool) best(v *view, call *tandem.Call) *balance.Node {
	if call.Pin == "" && len(call.Exclude) == 0 && p.health.shut.Load() == 0 {
		if v.sole != nil && call.Route == nil {
			return v.sole
		}
		if n := v.picker.Pick(call, p.usable); n != nil {
			return n
		}
	}
	if n := v.named(call.Pin); n != nil && allowed(call, n) {
		return n // the policy is not asked: its turns are for calls that have a choice
	}
	for _, good := range []func(*balance.Node) bool{
		p.isUsable, p.isWell, p.isConnecting, p.isLive, func(*balance.Node) bool { return true },
	} {
		if n := v.picker.Pick(call, func(n *balance.Node) bool {
			return allowed(call, n) && good(n) && !p.health.open(v.member(n), call)
		}); n != nil {
			return n
		}
	}
	if call.Pin != "" {
		return nil
	}
	return v.picker.Pick(call, func(n *balance.Node) bool { return !p.health.open(v.member(n), call) })
}

func allowed(call *tandem.Call, n *balance.Node) bool {
	id := n.Instance.ID
	return (call.Pin == "" || call.Pin == id) && !slices.Contains(call.Exclude, id)
}

// isUsable reports whether an instance is connected and answers, and its breaker lets calls
// through. A suspect is not usable, however many instances are left out: a call that is sent to
// it only waits.
func (p *pool) isUsable(n *balance.Node) bool {
	v := p.view.Load()
	m := v.member(n)
	return m != nil && m.well() && (m.breaker.Closed() || p.health.passes(v, m))
}

func (p *pool) isLive(n *balance.Node) bool {
	m := p.view.Load().member(n)
	return m != nil && m.live()
}

// isConnecting reports whether an instance may soon be connected. Calls do not wait for a
// connection to a suspect.
func (p *pool) isConnecting(n *balance.Node) bool {
	v := p.view.Load()
	m := v.member(n)
	return p.suspicion(v, n) == "" && (m == nil || m.links[0].usable())
}

func (p *pool) waitFirst(ctx context.Context, call *tandem.Call) error {
	size := sizeOf(call)
	if err := p.ready.enter(size); err != nil {
		return err
	}
	defer p.ready.leave(size)
	ctx, cancel := p.client.patience(ctx, call)
	defer cancel()
	select {
	case <-p.first:
	case <-ctx.Done():
		e := tandem.AsError(ctx.Err())
		e.Message, e.NotExecuted = "no list of instances yet for "+p.client.target, true
		return e
	}
	if p.view.Load() == nil {
		return unavailable("%v", errClosed)
	}
	return nil
}

// patience bounds how long a call waits for a connection. A stream may have no
// deadline, but does not wait longer than other calls.
func (c *Client) patience(ctx context.Context, call *tandem.Call) (context.Context, context.CancelFunc) {
	if !call.Deadline.IsZero() {
		return context.WithDeadline(ctx, call.Deadline)
	}
	if most := c.ruleOf(call).Timeout; most > 0 {
		return context.WithTimeout(ctx, most)
	}
	return ctx, func() {}
}

func (p *pool) noInstance(v *view, call *tandem.Call) error {
	switch named := v.memberOf(call.Pin); {
	case p.health.open(named, call):
		return unavailable("the circuit breaker of %s is open at %q", call.Method, call.Pin)
	case call.Pin != "":
		return unavailable("no instance %q in %s", call.Pin, p.client.target)
	case p.health.anyOpen(v, call):
		return unavailable("the circuit breaker of %s is open at every instance of %s", call.Method, p.client.target)
	case len(v.nodes) > 0 && call.Route != nil:
		return unavailable("no instance of %s is for the call's route: %v", p.client.target, call.Route)
	case len(v.nodes) > 0:
		return unavailable("all instances of %s are reserved for calls with a route", p.client.target)
	case v.stale != nil:
		return unavailable("no instance of %s is known: %v", p.client.target, v.stale)
	}
	return unavailable("%s has no instance", p.client.target)
}

func unavailable(format string, args ...any) error {
	return &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: fmt.Sprintf(format, args...)}
}
