package server

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

// minHandshake is how long a connection may always take for its handshake, however many others
// wait. Clients that all reconnect at once are quicker.
const minHandshake = 100 * time.Millisecond

// mostShed is how many connections are closed when the system has no room for another.
const mostShed = 64

// errCrowded is the reason when a connection in its handshake is closed to make room.
var errCrowded = errors.New("too many connections in their handshake: the oldest one of the network that holds most was closed; WithProxies exempts proxies")

// enter adds a new connection to those in their handshake. If they are too many, it closes the
// one that [transport.Handshakes] selects, so that silent connections do not keep others out.
// If even that one is new, the accept loop waits: thousands of clients that reconnect at once
// then queue in the system.
func (s *Server) enter(c *net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.welcomesLocked() && s.greeting.Len() >= s.opts.maxGreeting {
		if wait := s.closeOldLocked(time.Now()); wait > 0 {
			s.waitForRoomLocked(wait)
		}
	}
	if err := s.fullLocked(); err != nil {
		return err
	}
	s.greeting.Add(c, s.networkOf((*c).RemoteAddr()), time.Now())
	s.wg.Add(1)
	return nil
}

// waitForRoomLocked waits until a connection is no longer in its handshake, or for at most that
// long.
func (s *Server) waitForRoomLocked(most time.Duration) {
	late := time.AfterFunc(most, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	})
	s.room.Wait()
	late.Stop()
}

// closeOldLocked closes one connection in its handshake. If there is none that is old
// enough it returns how long to wait for one.
func (s *Server) closeOldLocked(now time.Time) (wait time.Duration) {
	c, since, ok := s.greeting.Next()
	if !ok {
		return minHandshake
	}
	if wait = minHandshake - now.Sub(since); wait > 0 {
		return wait
	}
	s.greeting.Remove(c)
	gone := *c
	s.wg.Go(func() { // its Close may take time
		_ = gone.Close() // its goroutine notices
		s.turnedAway(gone, errCrowded)
	})
	return 0
}

// shed closes connections that have been in their handshake for long enough, when the system
// has no room for new ones.
func (s *Server) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range mostShed {
		if s.state != serving || s.closeOldLocked(time.Now()) > 0 {
			return
		}
	}
}

// fullLocked returns why the server takes no further connection; nil if it does. If the server
// is full, it closes a connection that has been in its handshake for long enough.
func (s *Server) fullLocked() error {
	if !s.welcomesLocked() {
		return ErrServerClosed
	}
	full := s.opts.maxConns > 0 && len(s.sessions)+len(s.conns)+s.greeting.Len() >= s.opts.maxConns
	if full && s.closeOldLocked(time.Now()) > 0 {
		return errTooMany
	}
	return nil
}

// keepGreeted is called when a client has sent its preface, before the server's is sent: from then on
// the client may send calls, so the connection is no longer closed to make room. If it has been
// closed already, keepGreeted returns an error.
func (s *Server) keepGreeted(c *net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.greeting.Keep(c) {
		return errCrowded
	}
	return nil
}

// greetedLocked removes a connection from those in their handshake. It returns false if the
// connection was not there: then it has been closed.
func (s *Server) greetedLocked(c *net.Conn) bool {
	if s.state == serving {
		s.room.Signal() // one more connection may enter
	} else {
		s.room.Broadcast() // every Shutdown that waits checks again
	}
	return s.greeting.Remove(c)
}

// networkOf returns the network that a connection counts for; the zero Prefix for one of
// [WithProxies].
func (s *Server) networkOf(a net.Addr) netip.Prefix {
	ip := transport.IP(a)
	for _, p := range s.opts.proxies {
		if p.Contains(ip) {
			return netip.Prefix{}
		}
	}
	return transport.NetworkOf(ip)
}
