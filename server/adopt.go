package server

import (
	"errors"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem/transport"
)

// errTooMany is the error for a connection beyond [WithMaxConnections].
var errTooMany = errors.New("server: too many connections")

// ServeProtocol serves one connection that is known to speak p, until its client
// leaves or the server ends it, and closes it. It is for connections that did not
// come through a listener of the server: one that was taken over from an HTTP
// server, a pair of pipes, a socket that a parent process has left. p need not be
// one of [WithProtocols], and its Match is not asked. The connection counts, and is
// drained, and is shown to plugins, as all others.
//
// The error says why the connection was not served: [ErrServerClosed], that there
// are too many, or that a plugin has refused it. How a connection that was served has ended is logged.
func (s *Server) ServeProtocol(c net.Conn, p Protocol) error {
	v, err := s.admit(c)
	if err != nil {
		_ = v.conn.Close() // the other error says why
		s.depart(v, err)
		return fmt.Errorf("server: %w", err)
	}
	v.conn = transport.Wrap(v.conn)
	fresh := s.newConn(v, p, nil)
	if err := s.adoptForeign(fresh); err != nil {
		fresh.end()
		s.depart(v, err)
		return err
	}
	defer s.wg.Done()
	s.serveConn(fresh, p)
	return nil
}

// adoptForeign makes a connection that no listener has accepted one of the
// server's, which then waits for its end.
func (s *Server) adoptForeign(c *Conn) error {
	if s.misfit != nil {
		return fmt.Errorf("server: %w", s.misfit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fullLocked(); err != nil {
		return err
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	return nil
}
