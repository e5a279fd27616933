package transporttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// session is one run of a check: the transport, and the functions that close what it has
// opened.
type session struct {
	h      Harness
	ctx    context.Context
	cancel context.CancelFunc
	ends   []func()
}

func newSession(ctx context.Context, h Harness) *session {
	s := &session{h: h}
	s.ctx, s.cancel = context.WithTimeout(ctx, 3*h.within())
	return s
}

// atEnd registers a function that is called when the check is over, the last one first.
func (s *session) atEnd(f func()) { s.ends = append(s.ends, f) }

func (s *session) end() {
	defer s.cancel()
	for len(s.ends) > 0 {
		f := s.ends[len(s.ends)-1]
		s.ends = s.ends[:len(s.ends)-1]
		_ = s.within("closing", func() error { f(); return nil })
	}
}

// settled waits until the goroutines of the check are gone.
func (s *session) settled(before goleak.Option) error {
	end := time.Now().Add(s.h.within())
	for {
		err := goleak.Find(before) // retries for half a second
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// within runs a step that may not return, and fails if it does not in time.
func (s *session) within(what string, step func() error) error {
	done := make(chan error, 1)
	go func() { done <- step() }()
	timer := time.NewTimer(3 * s.h.within())
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%s does not end", what)
	}
}

// await waits for something to happen.
func (s *session) await(what string, c <-chan struct{}) error {
	timer := time.NewTimer(s.h.within())
	defer timer.Stop()
	select {
	case <-c:
		return nil
	case <-timer.C:
		return fmt.Errorf("%s: not within %v", what, s.h.within())
	}
}

// result waits for an error on c, which it returns second. The first result is an error if none
// comes in time.
func (s *session) result(what string, c <-chan error) (late, result error) {
	timer := time.NewTimer(s.h.within())
	defer timer.Stop()
	select {
	case err := <-c:
		return nil, err
	case <-timer.C:
		return fmt.Errorf("%s: not within %v", what, s.h.within()), nil
	}
}

// served is a server on the transport.
type served struct {
	*server.Server
	ln   net.Listener
	done chan error // what ServeListener returned
}

func (s *session) target(v *served) string { return s.h.Name + "://" + v.ln.Addr().String() }

// serve starts a server with the methods of the suite.
func (s *session) serve(opts ...server.Option) (*served, *methods, error) {
	return s.serveAt(s.h.Server, s.h.Address(), opts...)
}

func (s *session) serveAt(t tandem.Transport, address string, opts ...server.Option) (*served, *methods, error) {
	ln, err := t.Listen(s.ctx, address)
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %q: %w", address, err)
	}
	m := newMethods()
	v := &served{server.New(append([]server.Option{server.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...), ln, make(chan error, 1)}
	if err := m.register(v.Server); err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	go func() { v.done <- v.ServeListener(ln) }()
	s.atEnd(func() { _ = v.Close(); <-v.done })
	return v, m, nil
}

// dial returns a client of the transport, with timeouts for slow machines.
func (s *session) dial(target string, opts ...client.Option) (*client.Client, error) {
	return s.dialOver(s.h.client(), target, opts...)
}

func (s *session) dialOver(t tandem.Transport, target string, opts ...client.Option) (*client.Client, error) {
	c, err := client.Dial(target, append([]client.Option{
		client.WithTransport(s.h.Name, t), client.WithTimeout(s.h.within()), client.WithConnections(client.Connections{Timeout: s.h.within()}),
		client.WithLogger(slog.New(slog.DiscardHandler)),
	}, opts...)...)
	if err == nil {
		s.atEnd(func() { _ = c.Close() })
	}
	return c, err
}

// both starts a server and a client of it.
func (s *session) both(opts ...client.Option) (*client.Client, *served, *methods, error) {
	v, m, err := s.serve()
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := s.dial(s.target(v), opts...)
	return c, v, m, err
}

// pair returns the two ends of a connection. The first bytes, which the client
// sends, have been read: some transports need them to know of the connection.
func (s *session) pair() (dialed, accepted net.Conn, err error) {
	ln, err := s.h.Server.Listen(s.ctx, s.h.Address())
	if err != nil {
		return nil, nil, err
	}
	s.atEnd(func() { _ = ln.Close() })
	return s.pairOn(ln)
}

func (s *session) pairOn(ln net.Listener) (dialed, accepted net.Conn, err error) {
	type end struct {
		conn net.Conn
		err  error
	}
	got := make(chan end, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			c = transport.Wrap(c) // as a session does
			err = greeted(c, s.h.within())
		}
		got <- end{c, err}
	}()
	dialed, err = s.h.client().Dial(s.ctx, ln.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	s.atEnd(func() { _ = dialed.Close() })
	dialed = transport.Wrap(dialed)
	if _, err := dialed.Write([]byte(greeting)); err != nil {
		return nil, nil, err
	}
	select {
	case e := <-got:
		if e.conn != nil {
			s.atEnd(func() { _ = e.conn.Close() })
		}
		return dialed, e.conn, e.err
	case <-s.ctx.Done():
		return nil, nil, fmt.Errorf("accept: %w", s.ctx.Err())
	}
}

const greeting = "hello"

// greeted reads the greeting. A TLS connection does its handshake with it.
func greeted(c net.Conn, within time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != greeting {
		return fmt.Errorf("read %q of the first bytes: %w", got, err)
	}
	return c.SetReadDeadline(time.Time{})
}
