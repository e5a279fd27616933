package server

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem/transport"
)

// errTooMany is the error for a connection beyond [WithMaxConnections].
var errTooMany = errors.New("server: too many connections")

// ServeProtocol serves one connection that is known to speak p, until its client leaves or the
// server ends it, and closes it. It is for connections that did not come through a listener of
// the server: one that was taken over from an HTTP server, a pair of pipes, a socket that a
// parent process has left. p need not be one of [WithProtocols], and its Match is not called.
// The connection counts towards the limits, is drained, and is shown to plugins, as all others.
//
// With [WithTLS] the connection gets TLS. One that has TLS already stays as it is, and is
// refused if the configuration demands certificates of clients. The error says why the
// connection was not served: [ErrServerClosed], that there are too many, that a plugin has
// refused it, or that its TLS handshake has failed. How a served connection ended is logged.
func (s *Server) ServeProtocol(c net.Conn, p Protocol) error {
	c, err := s.secureConn(c)
	if err != nil {
		return err
	}
	v, err := s.admit(c)
	if err != nil {
		_ = v.conn.Close() // the other error says why
		s.depart(v, err)
		return fmt.Errorf("server: %w", err)
	}
	v.conn = transport.Wrap(v.conn)
	if err := s.handshake(v.conn); err != nil {
		_ = v.conn.Close() // the other error says why
		s.depart(v, err)
		return err
	}
	fresh := s.newConn(v, p, nil)
	if err := s.adoptForeign(fresh); err != nil {
		fresh.end()
		s.depart(v, err)
		return err
	}
	defer s.wg.Done()
	s.followRules()
	s.serveConn(fresh, p)
	return nil
}

// handshake does the TLS handshake of a connection that has TLS: the client's identity is known
// only afterwards. Meanwhile the connection counts as one in its handshake.
func (s *Server) handshake(c net.Conn) error {
	if transport.TLSState(c) == nil {
		return nil
	}
	if err := s.enter(&c); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	defer s.wg.Done()
	defer func() {
		s.mu.Lock()
		s.greetedLocked(&c)
		s.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(s.base, s.opts.handshake)
	defer cancel()
	if err := transport.Handshake(ctx, c); err != nil {
		err = transport.AnswerMismatch(c, nil, err)
		return fmt.Errorf("server: TLS handshake with %v: %w", c.RemoteAddr(), err)
	}
	return nil
}

// adoptForeign adds a connection that no listener has accepted to those of the server, which
// then waits for its end.
func (s *Server) adoptForeign(c *Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != serving { // these connections wait in no listener's queue, so refusing one loses no request
		return ErrServerClosed
	}
	if err := s.fullLocked(); err != nil {
		return err
	}
	s.conns[c] = struct{}{}
	c.accepted.age = s.ages(func(ctx context.Context) { _ = c.await(ctx) }) // logged as its end
	s.wg.Add(1)
	return nil
}
