package server

import (
	"cmp"
	"context"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/internal/session"
)

// runningCall is a call of another protocol that waits or runs, in the list of its connection. It
// is also the context of the handler. It has copies of what listings show, as the handler may
// change the [tandem.Call], and its owner may use that again when the call has ended.
type runningCall struct {
	context.Context // set before the handler runs

	conn     *Conn
	call     *tandem.Call
	method   string
	kind     tandem.Kind
	peer     *tandem.Peer
	since    int64 // ns by the clock of the sessions
	deadline time.Time

	// Guarded by the mutex of the connection.
	next, prev *runningCall
	queued     *overload.Request // the entry in the gate's queue, present or past; nil for none
	awaits     session.Awaits
}

func newRunningCall(c *Conn, m *dispatch.Method, call *tandem.Call) *runningCall {
	return &runningCall{
		conn: c, call: call, kind: call.Kind, peer: call.Peer, since: c.server.env.Now(), deadline: call.Deadline,
		method: cmp.Or(m.Name, call.Method), // a method that does not exist has no name of its own
	}
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
		f(session.Running{Method: r.method, Kind: r.kind, Peer: r.peer, Arrived: c.server.env.At(r.since), Deadline: r.deadline, Awaits: awaits})
	}
}
