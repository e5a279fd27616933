package server

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tandem-rpc/tandem/internal/session"
)

// Shutdown drains the server and closes it. It leaves the registries, tells clients to go
// elsewhere, goes on serving for [WithLameDuck], stops listening, waits for the running calls
// and closes all connections. Connections that wait to be accepted are still served. If ctx
// ends first, it closes at once and returns ctx's error. A registry that does not answer gets
// half of ctx's time.
func (s *Server) Shutdown(ctx context.Context) error {
	first, cancel := half(ctx)
	defer cancel()
	late := s.leave(first, s.delist())
	closing := &drainer{ctx: ctx}
	if s.opts.lameDuck > 0 {
		closing.begin(s.connected())
		s.waitLameDuck(ctx)
	}
	held := s.drain(closing)
	late = append(late, s.leave(first, held.listed)...)
	s.shut(ctx, held.listeners) // before clients are told, as they dial again at once
	closing.begin(held.sessions, held.conns)
	s.awaitGreeted(ctx)
	err := closing.wait()
	wait := closeWait
	if err != nil {
		wait = lastWait // handlers have had ctx's time already
	}
	lastly, stop := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer stop()
	s.leaveAtLast(lastly, late)
	return errors.Join(err, s.end(wait))
}

// half returns a context with half of the time that ctx has left, so that a registry that does
// not answer leaves some of it to running calls.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	if d, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(d)/2) //nolint:mnd // a half
	}
	return context.WithCancel(ctx)
}

// closeWait is how long Close waits for handlers whose contexts have ended.
const closeWait = 5 * time.Second

// lastWait is how long Shutdown waits for handlers when ctx has ended, and for registries that
// have not answered yet.
const lastWait = 100 * time.Millisecond

// ErrHandlersRunning is returned by Close and Shutdown when handlers are still running although
// their contexts have ended. Go has no way to stop them.
var ErrHandlersRunning = errors.New("server: handlers are still running")

// Close stops at once: calls in flight fail, handlers' contexts end. It waits
// up to five seconds for the handlers to return.
func (s *Server) Close() error { return s.end(closeWait) }

func (s *Server) end(wait time.Duration) error {
	held := s.close()
	for _, ln := range held.listeners {
		_ = ln.Close()
	}
	// Connections are closed before the handlers' contexts end: otherwise handlers would answer
	// that they were canceled, and clients would see that error and not a lost connection.
	for _, ses := range held.sessions {
		ses.Close()
	}
	for _, c := range held.conns {
		c.end()
	}
	s.cancel()
	leaving, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	s.leaveAtLast(leaving, held.listed) // last, so that nothing else waits for a registry
	deadline := time.Now().Add(wait)
	ended := session.WaitFor(&s.wg, wait)
	s.turns.Stop()
	if !s.env.Close(time.Until(deadline)) || !ended { // the Env is closed in any case
		return ErrHandlersRunning
	}
	return nil
}

// held lists what a server has to close when it ends.
type held struct {
	listeners []net.Listener
	listed    []*listing
	sessions  []*session.Session
	conns     []*Conn
}

// delist marks the server as ending, and returns the listings that have to leave their
// registries.
func (s *Server) delist() []*listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delistLocked()
}

func (s *Server) delistLocked() []*listing {
	if !s.ending {
		s.ending = true
		close(s.leaving)
	}
	listed := s.listed
	s.listed = nil
	return listed
}

func (s *Server) connected() ([]*session.Session, []*Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connectedLocked()
}

func (s *Server) connectedLocked() (sessions []*session.Session, conns []*Conn) {
	for ses := range s.sessions {
		sessions = append(sessions, ses)
	}
	for c := range s.conns {
		conns = append(conns, c)
	}
	return sessions, conns
}

// waitLameDuck waits for [WithLameDuck], between leaving the registries and closing the listeners. It
// returns early when ctx ends or Close is called.
func (s *Server) waitLameDuck(ctx context.Context) {
	select {
	case <-time.After(s.opts.lameDuck):
	case <-ctx.Done():
	case <-s.base.Done(): // Close was called
	}
}

// drain begins to drain, and returns what has to be closed. Connections that are accepted, or
// wait to be accepted, are still served, and parting drains them as soon as their protocol is
// known. Those of tandem's own protocol are closed instead: their clients then dial elsewhere.
func (s *Server) drain(parting *drainer) held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == serving {
		s.state, s.lateDrains = draining, parting
	}
	return s.takeLocked()
}

// close sets the last state, closes the connections in their handshake, and returns what else
// has to be closed.
func (s *Server) close() held {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = closed
	s.refuseNewcomersLocked()
	return s.takeLocked()
}

func (s *Server) takeLocked() (h held) {
	h.listed = s.delistLocked()
	s.room.Broadcast()
	for ln := range s.listeners {
		h.listeners = append(h.listeners, *ln)
	}
	h.sessions, h.conns = s.connectedLocked()
	return h
}

// welcomesLocked reports whether new connections are served.
func (s *Server) welcomesLocked() bool { return s.state == serving || s.lateDrains != nil }

func (s *Server) refuseNewcomersLocked() {
	s.lateDrains = nil
	for c := range s.greeting.All() {
		_ = (*c).Close() // its goroutine notices
	}
	s.room.Broadcast()
}

// lastGreeting is how long Shutdown waits until the protocol of each new connection is known,
// and lastAccept how long it waits for the accept loops to end.
const (
	lastGreeting = 500 * time.Millisecond
	lastAccept   = 500 * time.Millisecond
)

// deadliner is a listener that can stop accepting without being closed.
type deadliner interface{ SetDeadline(t time.Time) error }

// shut closes the listeners. Closing a listener resets the connections that wait to be
// accepted, and the requests that they have sent are lost. So where the listener has deadlines,
// a deadline ends its accept loop, which first accepts those connections, see [Server.sweep].
func (s *Server) shut(ctx context.Context, listeners []net.Listener) {
	for _, ln := range listeners {
		if d, ok := ln.(deadliner); !ok || d.SetDeadline(past) != nil {
			_ = ln.Close() // the accept loop says why it ended
		}
	}
	wait := lastAccept
	if d, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(d))
	}
	if !session.WaitFor(&s.acceptLoops, wait) {
		for _, ln := range listeners {
			_ = ln.Close() // as above
		}
	}
}

// sweep accepts the connections that wait to be accepted, until 5 ms pass without one or half
// of lastAccept is over. A connection that arrives between then and the listener's end is reset
// by the system: [WithLameDuck] gives clients time to dial elsewhere.
func (s *Server) sweep(ln net.Listener) {
	const pause = 5 * time.Millisecond
	d, ok := ln.(deadliner)
	if !ok {
		return
	}
	for end := time.Now().Add(lastAccept / 2); time.Now().Before(end); { //nolint:mnd // a half
		if d.SetDeadline(time.Now().Add(pause)) != nil {
			return
		}
		c, err := ln.Accept()
		if err != nil {
			return
		}
		s.start(c)
	}
}

// awaitGreeted waits until the protocol of each accepted connection is known. Connections that
// have not shown it within lastGreeting are closed.
func (s *Server) awaitGreeted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastGreeting)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuseNewcomersLocked()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.lateDrains != nil && s.greeting.Len() > 0 {
		s.room.Wait()
	}
	s.lateDrains = nil
}
