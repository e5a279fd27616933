package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/registry"
)

// pool holds the instances of the target and the connections to them.
type pool struct {
	client *Client
	view   atomic.Pointer[view] // nil until the first list
	usable func(*balance.Node) bool
	timed  bool // the policy looks at latencies

	mu      sync.Mutex
	members map[string]*member
	table   *balance.Table                // remembers the statistics of who left, too
	retired map[*session.Session]struct{} // with calls in flight
	first   chan struct{}                 // closed when there is a view, or no hope for one
	closed  bool
}

// view is what calls work with; it is replaced as a whole.
type view struct {
	nodes  []*balance.Node
	conns  map[*balance.Node]*member
	picker balance.Picker
	stale  error
}

// member is an instance with its connections.
type member struct {
	instance tandem.Instance
	peer     *tandem.Peer // of calls that wait for a connection
	suspect  atomic.Bool
	links    []*link
	cancel   context.CancelFunc
}

func newPool(c *Client) *pool {
	p := &pool{
		client: c, members: map[string]*member{}, table: balance.NewTable(c.opts.policy),
		retired: map[*session.Session]struct{}{}, first: make(chan struct{}),
	}
	p.usable = p.isLive
	if l, ok := c.opts.policy.(balance.LatencyAware); ok {
		p.timed = l.UsesLatency()
	}
	return p
}

// update takes in a new list: new instances are connected to, others kept,
// vanished ones left once their calls are done.
func (p *pool) update(v registry.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	next := make(map[string]*member, len(v.Instances))
	for _, in := range v.Instances {
		m := p.members[in.ID]
		if m == nil || !sameEndpoints(m.instance, in) {
			m = p.join(in)
		}
		m.instance = in
		m.suspect.Store(v.Suspect[in.ID])
		next[in.ID] = m
	}
	for id, m := range p.members {
		if next[id] != m {
			m.cancel()
		}
	}
	p.members = next
	p.publish(v.Instances, v.Stale)
}

func sameEndpoints(a, b tandem.Instance) bool { return slices.Equal(a.Endpoints, b.Endpoints) }

// join starts the links to a new instance.
func (p *pool) join(in tandem.Instance) *member {
	ctx, cancel := context.WithCancel(p.client.ctx)
	m := &member{instance: in, peer: &tandem.Peer{Instance: in.ID}, cancel: cancel}
	for range p.client.opts.connections {
		l := newLink(p.client, in.ID, p.endpoint(in))
		m.links = append(m.links, l)
		p.client.wg.Go(func() { l.run(ctx) })
	}
	return m
}

// endpoint chooses the first that we have a transport for.
func (p *pool) endpoint(in tandem.Instance) tandem.Endpoint {
	for _, ep := range in.Endpoints {
		if p.client.opts.transports[ep.Transport] != nil && (ep.Protocol == "" || ep.Protocol == "tandem") {
			return ep
		}
	}
	return in.Endpoints[0]
}

// publish makes the instances, who are members, the ones that calls see.
func (p *pool) publish(instances []tandem.Instance, stale error) {
	p.table.Update(instances)
	v := &view{conns: make(map[*balance.Node]*member, len(instances)), stale: stale}
	v.nodes, v.picker = p.table.Current()
	for _, n := range v.nodes {
		v.conns[n] = p.members[n.Instance.ID]
	}
	p.view.Store(v)
	p.openFirst()
}

func (p *pool) openFirst() {
	select {
	case <-p.first:
	default:
		close(p.first)
	}
}

// giveUp says that there will be no list.
func (p *pool) giveUp(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.view.Load() == nil {
		p.publish(nil, err)
	}
}

// alive tells the keeper whether a suspect still answers.
func (p *pool) alive(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[id]
	return m != nil && m.live()
}

func (m *member) live() bool {
	for _, l := range m.links {
		if l.live.Load() != nil {
			return true
		}
	}
	return false
}

// keep remembers a session that is finishing its calls, so that Close ends it.
func (p *pool) keep(s *session.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		s.Close()
		return
	}
	for old := range p.retired {
		if old.Err() != nil {
			delete(p.retired, old)
		}
	}
	if s.Err() == nil {
		p.retired[s] = struct{}{}
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	retired := p.retired
	p.retired = nil
	for _, m := range p.members {
		m.cancel()
		for _, l := range m.links {
			if s := l.live.Load(); s != nil {
				s.Close()
			}
		}
	}
	p.openFirst()
	p.mu.Unlock()
	for s := range retired {
		s.Close()
	}
}

// attempt is the innermost Func: it picks an instance and makes the call on
// one of its connections.
func (p *pool) attempt(ctx context.Context, call *tandem.Call) error {
	v := p.view.Load()
	if v == nil {
		if err := p.waitFirst(ctx, call); err != nil {
			return err
		}
		v = p.view.Load()
	}
	if p.client.ctx.Err() != nil {
		return unavailable("%v", errClosed)
	}
	n := p.pick(v, call)
	if n == nil {
		return p.noInstance(v, call)
	}
	m := v.conns[n]
	call.Peer = m.peer
	s, err := m.link().session(ctx, call)
	if err != nil {
		return err
	}
	call.Peer = s.Peer()
	if len(v.nodes) == 1 { // nothing to choose by statistics
		return s.Invoke(ctx, call)
	}
	return p.invoke(ctx, n.Stats, s, call)
}

// invoke makes the call and keeps the instance's statistics.
func (p *pool) invoke(ctx context.Context, stats *balance.Stats, s *session.Session, call *tandem.Call) error {
	var began time.Duration
	if p.timed {
		began = balance.Now()
	}
	stats.Begin()
	err := s.Invoke(ctx, call)
	if call.Kind == tandem.Streaming && err == nil {
		call.OnEnd(func(err error) { stats.Done(0, err != nil) }) // how long a stream lives is no latency
		return nil
	}
	stats.Done(began, err != nil)
	return err
}

// link returns one of the connections, a live one if there is one.
func (m *member) link() *link {
	if len(m.links) == 1 {
		return m.links[0]
	}
	start := rand.IntN(len(m.links))
	for i := range m.links {
		if l := m.links[(start+i)%len(m.links)]; l.live.Load() != nil {
			return l
		}
	}
	return m.links[start]
}

// pick asks the policy for a connected instance; failing that for one that is
// being connected, then for any that the call allows, since trying is better
// than giving up.
func (p *pool) pick(v *view, call *tandem.Call) *balance.Node {
	plain := call.Pin == "" && len(call.Exclude) == 0
	if plain {
		if len(v.nodes) == 1 {
			return v.nodes[0]
		}
		if n := v.picker.Pick(call, p.usable); n != nil {
			return n
		}
	}
	for _, good := range []func(*balance.Node) bool{
		func(n *balance.Node) bool { return allowed(call, n) && p.isLive(n) },
		func(n *balance.Node) bool { return allowed(call, n) && p.isConnecting(n) },
		func(n *balance.Node) bool { return allowed(call, n) },
		func(*balance.Node) bool { return call.Pin == "" },
	} {
		if n := v.picker.Pick(call, good); n != nil {
			return n
		}
	}
	return nil
}

func allowed(call *tandem.Call, n *balance.Node) bool {
	id := n.Instance.ID
	return (call.Pin == "" || call.Pin == id) && !slices.Contains(call.Exclude, id)
}

func (p *pool) isLive(n *balance.Node) bool {
	m := p.view.Load().conns[n]
	return m != nil && m.live()
}

// isConnecting reports whether an instance may soon be connected. A suspect
// must be already.
func (p *pool) isConnecting(n *balance.Node) bool {
	m := p.view.Load().conns[n]
	return m == nil || !m.suspect.Load() && m.links[0].usable()
}

func (p *pool) waitFirst(ctx context.Context, call *tandem.Call) error {
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
	switch {
	case !call.Deadline.IsZero():
		return context.WithDeadline(ctx, call.Deadline)
	case c.opts.timeout > 0:
		return context.WithTimeout(ctx, c.opts.timeout)
	}
	return ctx, func() {}
}

func (p *pool) noInstance(v *view, call *tandem.Call) error {
	switch {
	case call.Pin != "":
		return unavailable("no instance %q in %s", call.Pin, p.client.target)
	case v.stale != nil:
		return unavailable("no instance of %s is known: %v", p.client.target, v.stale)
	}
	return unavailable("%s has no instance", p.client.target)
}

func unavailable(format string, args ...any) error {
	return &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: fmt.Sprintf(format, args...)}
}
