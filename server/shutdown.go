package server

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tandem-rpc/tandem/internal/session"
)

// Shutdown stops in good order: it leaves the registries, tells clients to go elsewhere,
// goes on to serve for [WithLameDuck], accepts no more connections but those that have come
// already, waits for the running calls and closes. When ctx ends first it closes at once and returns ctx's error. A
// registry that does not answer is waited for half of the time.
func (s *Server) Shutdown(ctx context.Context) error {
	first, cancel := half(ctx)
	defer cancel()
	late := s.leave(first, s.delist())
	parting := &farewell{ctx: ctx}
	if s.opts.lameDuck > 0 {
		parting.bid(s.connected())
		s.limp(ctx)
	}
	held := s.drain(parting)
	late = append(late, s.leave(first, held.listed)...)
	s.shut(ctx, held.listeners) // before clients are told, who would dial again meanwhile
	parting.bid(held.sessions, held.conns)
	s.awaitGreeted(ctx)
	err := parting.wait()
	wait := closeWait
	if err != nil {
		wait = lastWait // there was time enough
	}
	lastly, stop := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer stop()
	s.leaveAtLast(lastly, late)
	return errors.Join(err, s.end(wait))
}

// half is a context with half of the time that ctx has: a registry that does not answer
// must leave calls some of it.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	if d, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(d)/2) //nolint:mnd // a half
	}
	return context.WithCancel(ctx)
}

// closeWait is how long Close waits for handlers whose contexts have ended.
const closeWait = 5 * time.Second

// lastWait is what is left to them when Shutdown's time is over.
const lastWait = 100 * time.Millisecond

// ErrHandlersRunning is what Close and Shutdown return when handlers did not
// return although their contexts have ended: nobody can end them.
var ErrHandlersRunning = errors.New("server: handlers are still running")

// Close stops at once: calls in flight fail, handlers' contexts end. It waits
// up to five seconds for the handlers to return.
func (s *Server) Close() error { return s.end(closeWait) }

func (s *Server) end(wait time.Duration) error {
	held := s.close()
	for _, ln := range held.listeners {
		_ = ln.Close()
	}
	// Connections end before handlers are told: else some would still answer that they
	// were canceled, and a client would take each answer for a failure of its own.
	for _, ses := range held.sessions {
		ses.Close()
	}
	for _, c := range held.conns {
		c.end()
	}
	s.cancel()
	leaving, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	s.leaveAtLast(leaving, held.listed) // the last: nobody waits for a registry
	deadline := time.Now().Add(wait)
	ended := session.WaitFor(&s.wg, wait)
	if !s.env.Close(time.Until(deadline)) || !ended { // the Env is closed in any case
		return ErrHandlersRunning
	}
	return nil
}

// held is what a server has to end.
type held struct {
	listeners []net.Listener
	listed    []*listing
	sessions  []*session.Session
	conns     []*Conn
}

// delist says that the server begins to end, and takes what is to leave the registries.
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

// limp waits out the time between leaving the registries and closing the listeners.
func (s *Server) limp(ctx context.Context) {
	select {
	case <-time.After(s.opts.lameDuck):
	case <-ctx.Done():
	case <-s.base.Done(): // Close was called
	}
}

// drain begins to drain, and takes what is to be ended. Connections that have been accepted
// or are waiting for it go on, and hear parting as soon as it is known what they speak; but
// those of tandem's own protocol end at once, since their clients dial elsewhere then.
func (s *Server) drain(parting *farewell) held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == serving {
		s.state, s.newcomers = draining, parting
	}
	return s.takeLocked()
}

// close is the last state. It takes what is to be ended, and ends greetings.
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
func (s *Server) welcomesLocked() bool { return s.state == serving || s.newcomers != nil }

func (s *Server) refuseNewcomersLocked() {
	s.newcomers = nil
	for c := range s.greeting.All() {
		_ = (*c).Close() // its goroutine notices
	}
	s.room.Broadcast()
}

// lastGreeting is what new connections have to say what they speak when the server drains,
// and lastAccept what the accept loops have to end.
const (
	lastGreeting = 500 * time.Millisecond
	lastAccept   = 500 * time.Millisecond
)

// deadliner is a listener that can be told to stop accepting without being closed.
type deadliner interface{ SetDeadline(t time.Time) error }

// shut closes the listeners. To close one resets the connections that wait to be accepted,
// with the requests that they have sent: where the listener allows it, its accept loop
// takes those in before, see [Server.sweep].
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
	if !session.WaitFor(&s.doors, wait) {
		for _, ln := range listeners {
			_ = ln.Close() // as above
		}
	}
}

// sweep accepts the connections that wait for it, until a few milliseconds pass without one.
// One that comes between its end and that of the listener is reset, by the system:
// [WithLameDuck] gives clients the time to dial elsewhere.
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

// awaitGreeted waits until it is known what each connection speaks that has been accepted.
// Those that do not say it in time are closed.
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
	for s.newcomers != nil && s.greeting.Len() > 0 {
		s.room.Wait()
	}
	s.newcomers = nil
}
