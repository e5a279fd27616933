package server

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
)

// Connection is the state of a connection to a server, of any protocol.
type Connection struct {
	ID       uint64       // unique in the process; a later connection has a larger one
	Protocol string       // as in Peer: "tandem", "grpc", …
	Peer     *tandem.Peer // the client; must not be changed
	Since    time.Time    // when it was accepted
	Running  int          // calls that wait or run
	Calls    uint64       // calls received so far
	Draining bool         // it takes no more calls, and ends when those that run are answered
	// RTT is the last measured round-trip time; 0 if it is not known. Clients of tandem's own
	// protocol are measured while calls run, all 5 s; connections of other protocols are not.
	RTT time.Duration
}

// lastConnection is the ID of the connection that was accepted last, by any server of the process.
var lastConnection atomic.Uint64

// Connections returns the connections that are served now, the oldest first, without those whose
// protocol is not known yet. It briefly takes a lock of each connection. It is safe for concurrent
// use.
func (s *Server) Connections() []Connection {
	var list []Connection
	s.eachConnection(func(ses *session.Session, v acceptedConn) {
		now := ses.Load()
		list = append(list, Connection{
			ID: v.id, Protocol: ses.Peer().Protocol, Peer: ses.Peer(), Since: v.since,
			Running: now.Running, Calls: now.Accepted, Draining: now.Draining, RTT: ses.RTT(),
		})
	}, func(c *Conn) {
		c.mu.Lock()
		defer c.mu.Unlock()
		list = append(list, Connection{
			ID: c.accepted.id, Protocol: c.peer.Protocol, Peer: c.peer, Since: c.accepted.since,
			Running: c.begun, Calls: c.received, Draining: c.draining,
		})
	})
	slices.SortFunc(list, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// eachConnection calls native or foreign for each connection. The server's mutex is not held
// meanwhile, as those of sessions are taken.
func (s *Server) eachConnection(native func(*session.Session, acceptedConn), foreign func(*Conn)) {
	s.mu.Lock()
	sessions := maps.Clone(s.sessions)
	_, conns := s.connectedLocked()
	s.mu.Unlock()
	for ses, v := range sessions {
		native(ses, v)
	}
	for _, c := range conns {
		foreign(c)
	}
}

// RunningCall is a call that a server has received and not answered yet.
type RunningCall struct {
	Method     string       // its name as registered; for a method that does not exist, the name that the caller sent
	Kind       tandem.Kind  // unary, one-way or streaming
	Peer       *tandem.Peer // the client; must not be changed
	Connection uint64       // ID of its [Connection]
	Since      time.Time    // when the request arrived at this host, as far as is known: its waits are included
	Deadline   time.Time    // when its context ends, as the caller or a timeout here says; zero for never
	Waits      Wait         // what it waits for; "" while its handler runs
}

// Wait is what a call waits for before, or while, its handler runs.
type Wait string

// What a [RunningCall] may wait for.
const (
	WaitsForSlot   Wait = "slot"    // other calls must end: [WithMaxConcurrency], [MethodConcurrency] or overload control
	WaitsForMemory Wait = "memory"  // other requests must give back memory of [WithMemory]
	WaitsForRest   Wait = "message" // the rest of its message must arrive
)

// waitOf returns the Wait of what a session says.
func waitOf(a session.Awaits) Wait {
	return [...]Wait{session.AwaitsSlot: WaitsForSlot, session.AwaitsMemory: WaitsForMemory, session.AwaitsMessage: WaitsForRest}[a]
}

// Running returns the calls that wait or run now on connections that are served, those that
// arrived first before the others, and at most as many as most says. Calls whose connection has ended are
// not among them, even if their handlers have not returned. Short calls may begin and end
// unseen. It briefly takes a lock of each connection, and is safe for concurrent use.
func (s *Server) Running(most int) []RunningCall {
	if most <= 0 {
		return nil
	}
	list := make(oldest, 0, min(most, 64)) //nolint:mnd // most have fewer
	add := func(id uint64) func(session.Running) {
		return func(r session.Running) {
			list.add(most, RunningCall{
				Method: r.Method, Kind: r.Kind, Peer: r.Peer, Connection: id, Since: r.Arrived, Deadline: r.Deadline, Waits: waitOf(r.Awaits),
			})
		}
	}
	s.eachConnection(
		func(ses *session.Session, v acceptedConn) { ses.EachRunning(add(v.id)) },
		func(c *Conn) { c.each(add(c.accepted.id)) },
	)
	slices.SortFunc(list, compareAge)
	return list
}

// compareAge puts the call that arrived first before the others.
func compareAge(a, b RunningCall) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.Method, b.Method))
}

// oldest has the calls that arrived first, the youngest on top.
type oldest []RunningCall

// add adds a call, in place of the youngest if there are most already.
func (o *oldest) add(most int, r RunningCall) {
	switch {
	case len(*o) < most:
		heap.Push(o, r)
	case compareAge(r, (*o)[0]) < 0:
		(*o)[0] = r
		heap.Fix(o, 0)
	}
}

func (o *oldest) Len() int           { return len(*o) }
func (o *oldest) Less(i, j int) bool { return compareAge((*o)[i], (*o)[j]) > 0 }
func (o *oldest) Swap(i, j int)      { (*o)[i], (*o)[j] = (*o)[j], (*o)[i] }

// Push adds a call at the end, for package heap.
func (o *oldest) Push(x any) { *o = append(*o, x.(RunningCall)) }

// Pop removes the last call, for package heap.
func (o *oldest) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}

// Limit is the state of a limit of running calls.
type Limit struct {
	Method  string `json:"method"`  // the method of [MethodConcurrency]; "" for [WithMaxConcurrency], which is for all
	Running int    `json:"running"` // calls that run
	Limit   int    `json:"limit"`   // how many may
	Queued  int    `json:"queued"`  // calls that wait
	Queue   int    `json:"queue"`   // how many may
	Refused uint64 `json:"refused"` // calls refused so far, as the queue was full
}

// Limits returns the limits of running calls: that of [WithMaxConcurrency], if there is one, and
// then those of methods, sorted by name. [Server.Overload] has those that overload control finds.
// It is safe for concurrent use.
func (s *Server) Limits() []Limit {
	var list []Limit
	if s.opts.limiter != nil {
		list = append(list, s.opts.limiter.describe(""))
	}
	for _, m := range s.table.Methods() {
		if l, ok := m.Limiter.(*limiter); ok {
			list = append(list, l.describe(m.Name))
		}
	}
	return list
}

func (l *limiter) describe(method string) Limit {
	waiting := min(l.waiting.Load(), l.queue) // a call that is being refused counts for a moment
	return Limit{Method: method, Running: len(l.slots), Limit: cap(l.slots), Queued: int(waiting), Queue: int(l.queue), Refused: l.refused.Load()}
}
