package server

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

// minHandshake is how long a connection may always take for its handshake, however many
// others wait: honest clients that all come back at once are quicker.
const minHandshake = 100 * time.Millisecond

// mostShed is how many connections are closed when the system has no room for another.
const mostShed = 64

// errCrowded is why a connection in its handshake was closed.
var errCrowded = errors.New("too many connections in their handshake: the oldest one of the network that holds most was closed; WithProxies exempts proxies")

// enter makes a new connection one of those in their handshake. When they are too many it
// closes the one that [transport.Handshakes] names, so that silent connections do not keep
// others out. While even that one is new, the accept loop waits: thousands of honest
// clients that come back at once then queue in the system.
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

// waitForRoomLocked waits until a connection is greeted no more, at most so long.
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
		_ = gone.Close() // what greets it notices
		s.turnedAway(gone, errCrowded)
	})
	return 0
}

// shed closes connections in their handshake, if they are old enough: the system has no
// room for new ones.
func (s *Server) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range mostShed {
		if s.state != serving || s.closeOldLocked(time.Now()) > 0 {
			return
		}
	}
}

// fullLocked says why the server takes no further connection; nil if it does. One in its
// handshake makes room, if it is old enough.
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

// greetedLocked says that a connection is being greeted no more. It reports whether the
// connection was one of those; if not, it has been closed.
func (s *Server) greetedLocked(c *net.Conn) bool {
	if s.state == serving {
		s.room.Signal() // one more may enter
	} else {
		s.room.Broadcast() // each Shutdown looks
	}
	return s.greeting.Remove(c)
}

// networkOf returns the network that a connection counts for.
func (s *Server) networkOf(a net.Addr) netip.Prefix {
	ip := transport.IP(a)
	for _, p := range s.opts.proxies {
		if p.Contains(ip) {
			return netip.Prefix{}
		}
	}
	return transport.NetworkOf(ip)
}
