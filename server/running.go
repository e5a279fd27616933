package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/lazyctx"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/internal/session"
)

// runningCall is a call of another protocol that waits or runs, in the list of its connection. It
// is also the context of the handler. It has copies of what listings show, as the handler may
// change the [tandem.Call], and its owner may use that again when the call has ended.
type runningCall struct {
	lazyctx.Context

	conn     *Conn
	call     *tandem.Call
	answerer Answerer
	method   *foreignMethod
	name     string
	kind     tandem.Kind
	peer     *tandem.Peer
	since    int64 // ns by the clock of the sessions
	deadline time.Time
	here     bool              // the goroutine that reads runs it
	began    int64             // ns; when it began to run
	took     time.Duration     // how long it ran, without the answer
	waited   *overload.Request // the entry in the gate's queue of a call that has waited there; else nil
	admitted admitted

	// Guarded by the mutex of the connection.
	next, prev *runningCall
	queued     *overload.Request // the entry in the gate's queue, present or past; nil for none
	awaits     session.Awaits
}

func newRunningCall(c *Conn, m *foreignMethod, call *tandem.Call) *runningCall {
	return &runningCall{
		conn: c, method: m, call: call, kind: call.Kind, peer: call.Peer, since: c.server.env.Now(), deadline: call.Deadline,
		name: cmp.Or(m.Name, call.Method), // a method that does not exist has no name of its own
	}
}

// admitted is the Body of a call that the gate has admitted. Decode may wait until the message
// has arrived, and until there is memory for it, which is no part of the handler's time.
type admitted struct {
	tandem.Body

	env  *session.Env
	gate *overload.Gate
	slot overload.Slot
	overload.Handled
}

func (a *admitted) Decode(v any) error {
	began := a.env.Now()
	defer func() { a.Waited(a.env.Now() - began) }()
	return a.Body.Decode(v)
}

// runApart makes the call in a goroutine of its own.
func (r *runningCall) runApart() {
	r.run()
	r.method.runs.RanApart(r.took)
}

// runHere makes the call in the goroutine that reads the connection, and reports whether that reads
// on: not if the call took long.
func (r *runningCall) runHere(takeOver func()) (reads bool) {
	t := &r.conn.turn
	r.here = true
	mine := t.Begin(&r.method.runs, takeOver)
	returned := false
	defer func() {
		if !returned { // the method has ended this goroutine
			t.GiveUp(mine)
		}
	}()
	r.run()
	returned = true
	r.method.runs.Ran(r.took)
	return t.End(mine)
}

// run makes the call, which the gate has admitted.
func (r *runningCall) run() {
	c, g := r.conn, r.conn.server.guard
	defer c.leaveCall(r)
	r.began = c.server.env.Now()
	if g == nil {
		r.execute()
		return
	}
	g.letRead(r.began)
	if r.kind == tandem.Streaming {
		defer g.gate.EndStream()
		r.execute()
		return
	}
	a := &r.admitted
	a.Body, a.env, a.gate = r.call.Body, c.server.env, g.gate
	a.Handled = r.method.load.Begin(r.waited, r.began, a.env.Instant(r.call.Deadline))
	a.Failed = true
	r.call.Body = a
	defer func() {
		a.Parked = a.slot.End()
		g.gate.Done(&a.Handled, a.env.Now()).Tell()
	}()
	r.execute()
}

// execute makes the call and passes on its error.
func (r *runningCall) execute() {
	s, call := r.conn.server, r.call
	s.foreign.running.Add(1)
	defer s.foreign.running.Add(-1)
	defer r.Cancel()
	if err := r.Err(); errors.Is(err, context.DeadlineExceeded) { // its deadline passed before it began
		r.end(notStarted(err))
		return
	}
	concludeRunning(r, call, dispatch.Run(r, call, r.method.Func, concludeRunning))
}

// concludeRunning ends a call whose context is its runningCall.
func concludeRunning(ctx context.Context, call *tandem.Call, err error) {
	if r, ok := ctx.(*runningCall); ok {
		r.conclude(call, err)
	}
}

// conclude ends the call and passes on its error, also if one of the application's
// functions that it calls panics.
func (r *runningCall) conclude(call *tandem.Call, err error) {
	returned := false
	defer func() {
		if !returned {
			err = r.conn.server.panicked(call.Method, recover())
		}
		r.end(err)
	}()
	call.End(err)
	if tandem.AsError(err) == nil { // AsError calls err's methods, which may panic, too
		err = nil
	}
	returned = true
}

// end passes the call's error on.
func (r *runningCall) end(err error) {
	r.admitted.Failed = err != nil
	r.took = time.Duration(r.conn.server.env.Now() - r.began)
	r.answerer.Answer(r.here, err)
}

// Value returns the call, or the call's entry in the list for limiters. Other keys are looked up
// in the context that the protocol has given.
func (r *runningCall) Value(key any) any {
	switch key {
	case tandem.ContextKey():
		return r.call
	case session.WaiterKey():
		return session.Waiter(r)
	}
	return r.Context.Value(key)
}

// AwaitSlot notes whether the call waits in a limiter's queue.
func (r *runningCall) AwaitSlot(waits bool) {
	if waits {
		r.await(session.AwaitsSlot)
	} else {
		r.await(session.AwaitsNothing)
	}
}

func (r *runningCall) await(a session.Awaits) {
	r.conn.mu.Lock()
	r.awaits = a
	r.conn.mu.Unlock()
}

// queue notes the entry that the call gets in the gate's queue.
func (r *runningCall) queue(q *overload.Request) {
	r.conn.mu.Lock()
	r.queued = q
	r.conn.mu.Unlock()
}

func (c *Conn) addLocked(r *runningCall) {
	if r.next = c.running; r.next != nil {
		r.next.prev = r
	}
	c.running = r
	c.begun++
}

func (c *Conn) removeLocked(r *runningCall) {
	if r.next != nil {
		r.next.prev = r.prev
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		c.running = r.next
	}
	r.next, r.prev = nil, nil
	c.begun--
}

// awaitsMemory notes that a call waits for memory, until the returned function is called. call may
// be nil, or be no call that runs. It searches for the call, which costs less than the wait.
func (c *Conn) awaitsMemory(call *tandem.Call) (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.running
	for r != nil && r.call != call {
		r = r.next
	}
	if r == nil || call == nil {
		return func() {}
	}
	r.awaits = session.AwaitsMemory
	return func() { r.await(session.AwaitsNothing) }
}

// each calls f for every call of the connection. It holds the connection's mutex meanwhile.
func (c *Conn) each(f func(session.Running)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := c.running; r != nil; r = r.next {
		awaits := r.awaits
		if r.queued != nil && c.server.guard.gate.Holds(r.queued) {
			awaits = session.AwaitsSlot
		}
		f(session.Running{Method: r.name, Kind: r.kind, Peer: r.peer, Arrived: c.server.env.At(r.since), Deadline: r.deadline, Awaits: awaits})
	}
}
