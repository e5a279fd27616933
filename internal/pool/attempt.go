package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/wire"
)

// attempt is one attempt at a call: its connection, and where its result is recorded.
type attempt struct {
	conn   *Conn
	member *member
	stats  *balance.Stats  // nil if no choice depends on it
	began  time.Duration   // a time of balance.Now; 0 if latencies are not needed
	report func(wire.Load) // records the load report of the response; nil if it is not needed
}

// Attempt is the innermost Func: it picks an instance and makes the call on one of its
// connections. Separate functions make the choice, so that their frames are not on the stack
// while the call waits: the garbage collector scans the stack of each waiting caller.
func (p *Pool) Attempt(ctx context.Context, call *tandem.Call) error {
	v, err := p.current(ctx, call)
	if err != nil {
		return err
	}
	var x *Explained
	if call.Explain != nil {
		x = p.explain(v, call)
	}
	a, err := p.begin(ctx, v, call)
	switch {
	case err != nil:
	case a.member.throttles.refuses(call.Method, &p.cfg):
		err = throttled(call, &p.cfg)
	default:
		err = a.invoke(ctx, call, &p.cfg)
	}
	if a.stats != nil {
		p.end(ctx, call, a, err)
	}
	if x != nil {
		p.tell(x, call, err)
	}
	if err != nil && a.conn != nil {
		p.awaitLeft(ctx, a.conn, err)
	}
	return err
}

// leaveWait is how long an attempt that failed with ErrDraining waits at most for the link to give
// up the connection.
const leaveWait = 100 * time.Millisecond

// awaitLeft waits until the link has given up a connection that takes no more calls: otherwise the
// next attempt could get the same one.
func (p *Pool) awaitLeft(ctx context.Context, conn *Conn, err error) {
	if !errors.Is(err, session.ErrDraining) {
		return
	}
	t := time.NewTimer(leaveWait)
	defer t.Stop()
	select {
	case <-conn.left:
	case <-t.C:
	case <-ctx.Done():
	case <-p.cfg.Life.Context().Done():
	}
}

// current returns the current view. It waits for the first list of instances.
func (p *Pool) current(ctx context.Context, call *tandem.Call) (*view, error) {
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
func (p *Pool) start(ctx context.Context, v *view, call *tandem.Call) (a attempt, mayWait bool, err error) {
	if p.closed.Load() {
		return attempt{}, false, unavailable("%v", ErrClosed)
	}
	n, m := p.pick(v, call)
	if n == nil {
		return attempt{}, len(v.nodes)+len(v.withheld) == 0, p.noInstance(v, call)
	}
	if m == nil {
		if m = p.connectForCall(n); m == nil {
			return attempt{}, true, unavailable("instance %q has just left %s", n.Instance.ID, p.cfg.Target)
		}
		if p.health.open(m, call) { // it could not be known before
			return attempt{}, false, p.noInstance(p.view.Load(), call)
		}
	}
	s := m.link().live.Load()
	if s == nil {
		if other := p.otherConnected(v, n, call); other != nil {
			p.health.forget(m, call)
			n, m = other, v.member(other)
		}
	}
	if m.connectedForCall.Load() {
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
	r := p.rules.Load()
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

// otherConnected returns another instance, which is connected, in place of n, which is not; nil if
// there is none. Connected instances are chosen first, so n has lost its connection since.
func (p *Pool) otherConnected(v *view, n *balance.Node, call *tandem.Call) *balance.Node {
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
func (p *Pool) end(ctx context.Context, call *tandem.Call, a attempt, err error) {
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
func (p *Pool) note(call *tandem.Call, a attempt, timed time.Duration, err error) {
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

// pick returns the instance that the policy picks, if its breakers admit the call. If a
// half-open breaker has just let another call through, pick tries to choose another instance; it
// returns nil if there is none.
func (p *Pool) pick(v *view, call *tandem.Call) (*balance.Node, *member) {
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
func (p *Pool) pickAgain(v *view, call *tandem.Call, n *balance.Node) (*balance.Node, *member) {
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

// best asks the policy for a usable instance (see isUsable); failing that for one that is
// connected and answers, then for one that may soon be connected, then for a connected suspect,
// then for any that the call allows, and last for an excluded one: trying is better than giving
// up. Instances with an open breaker are left out. A pinned call gets its instance, whatever
// its breakers say, or none.
func (p *Pool) best(v *view, call *tandem.Call) *balance.Node {
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
func (p *Pool) isUsable(n *balance.Node) bool {
	v := p.view.Load()
	m := v.member(n)
	return m != nil && m.well() && (m.breaker.Closed() || p.health.passes(v, m))
}

func (p *Pool) isLive(n *balance.Node) bool {
	m := p.view.Load().member(n)
	return m != nil && m.live()
}

// isConnecting reports whether an instance may soon be connected. Calls do not wait for a
// connection to a suspect.
func (p *Pool) isConnecting(n *balance.Node) bool {
	v := p.view.Load()
	m := v.member(n)
	return p.suspicion(v, n) == "" && (m == nil || m.links[0].usable())
}

func (p *Pool) waitFirst(ctx context.Context, call *tandem.Call) error {
	size := sizeOf(call)
	if err := p.ready.enter(size); err != nil {
		return err
	}
	defer p.ready.leave(size)
	ctx, cancel := p.patience(ctx, call)
	defer cancel()
	select {
	case <-p.first:
	case <-ctx.Done():
		e := tandem.AsError(ctx.Err())
		e.Message, e.NotExecuted = "no list of instances yet for "+p.cfg.Target, true
		return e
	}
	if p.view.Load() == nil {
		return unavailable("%v", ErrClosed)
	}
	return nil
}

// patience bounds how long a call waits for a connection. A stream may have no
// deadline, but does not wait longer than other calls.
func (p *Pool) patience(ctx context.Context, call *tandem.Call) (context.Context, context.CancelFunc) {
	if !call.Deadline.IsZero() {
		return context.WithDeadline(ctx, call.Deadline)
	}
	if most := p.RuleOf(call).Timeout; most > 0 {
		return context.WithTimeout(ctx, most)
	}
	return ctx, func() {}
}

// RuleOf returns the rule that a call began with.
func (p *Pool) RuleOf(made *tandem.Call) *rules.Rule {
	if o, ok := call.OutgoingOf(made); ok && o.Rule != nil {
		return o.Rule
	}
	return p.rules.Load().Of(made.Method)
}

func (p *Pool) noInstance(v *view, call *tandem.Call) error {
	misrouted := p.rules.Load().Misrouted(v.nodes, call)
	switch named := v.memberOf(call.Pin); {
	case named != nil && named.isForcedOpen():
		return unavailable("instance %q of %s gets no calls: its circuit breaker is %s", call.Pin, p.cfg.Target, p.health.forcedText(call.Pin))
	case p.health.open(named, call):
		return unavailable("the circuit breaker of %s is open at %q", call.Method, call.Pin)
	case v.withheld[call.Pin] != "":
		return unavailable("instance %q of %s gets no calls: %s", call.Pin, p.cfg.Target, v.withheld[call.Pin])
	case call.Pin != "":
		return unavailable("no instance %q in %s", call.Pin, p.cfg.Target)
	case misrouted != "" && len(v.nodes) > 0:
		return unavailable("no instance of %s for %s: %s", p.cfg.Target, call.Method, misrouted)
	case p.health.anyOpen(v, call):
		return unavailable("the circuit breaker of %s is open at every instance of %s", call.Method, p.cfg.Target)
	case len(v.nodes) > 0 && call.Route != nil:
		return unavailable("no instance of %s is for the call's route: %v", p.cfg.Target, call.Route)
	case len(v.nodes) > 0:
		return unavailable("all instances of %s are reserved for calls with a route", p.cfg.Target)
	case len(v.withheld) > 0:
		return unavailable("all %d instances of %s get no calls, as operators have set: see tandem instance ls", len(v.withheld), p.cfg.Target)
	case v.stale != nil:
		return unavailable("no instance of %s is known: %v", p.cfg.Target, v.stale)
	}
	return unavailable("%s has no instance", p.cfg.Target)
}

func unavailable(format string, args ...any) error {
	return &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: fmt.Sprintf(format, args...)}
}

// ErrOutrun is the cause with which attempts are cancelled when another has succeeded.
var ErrOutrun = errors.New("another attempt was quicker")

func wasOutrun(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrOutrun) }

// outrun counts an attempt that was cancelled because another was quicker. That is no failure,
// but a sign of a slow instance: without it, an instance that loses all its calls in this way
// would look as quick as the others and get as many. Its latency is unknown; eight times what
// the attempt took so far is a guess, which makes policies avoid the instance.
func outrun(stats *balance.Stats, began time.Duration) {
	now := balance.Now()
	if took := 8 * (now - began); began != 0 && took > stats.Peak() {
		stats.Done(now-took, false)
		return
	}
	stats.Done(0, false)
}
