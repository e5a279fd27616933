package transporttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// lateReader is how long a late reader waits before it reads: longer than closing a connection
// takes.
const lateReader = 300 * time.Millisecond

// pingPong sends a few bytes both ways.
func (s *session) pingPong(a, b net.Conn) error {
	for _, c := range [][2]net.Conn{{a, b}, {b, a}} {
		if err := errors.Join(a.SetDeadline(time.Now().Add(s.h.within())), b.SetDeadline(time.Now().Add(s.h.within()))); err != nil {
			return err
		}
		if _, err := c[0].Write([]byte("ping")); err != nil {
			return err
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(c[1], got); err != nil || string(got) != "ping" {
			return fmt.Errorf("read %q: %w", got, orNone(err))
		}
	}
	return errors.Join(a.SetDeadline(time.Time{}), b.SetDeadline(time.Time{}))
}

// lastWords makes either end write more than a block and close at once.
func lastWords(s *session) error {
	for _, fromClient := range []bool{true, false} {
		from, to, err := s.pair()
		if err != nil {
			return err
		}
		if !fromClient {
			from, to = to, from
		}
		words, sent := sample(200<<10, 3), make(chan error, 1)
		go func() {
			_, err := from.Write(words)
			sent <- errors.Join(err, from.Close())
		}()
		if err := to.SetReadDeadline(time.Now().Add(s.h.within())); err != nil {
			return err
		}
		got, err := io.ReadAll(to)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("after %d bytes the end of the connection is not seen", len(got))
		}
		if !bytes.Equal(got, words) {
			return fmt.Errorf("%d of %d bytes arrived (from the client: %t): %w", len(got), len(words), fromClient, orNone(err))
		}
		if late, err := s.result("the write", sent); late != nil || err != nil {
			return errors.Join(late, err)
		}
	}
	return nil
}

func halfClose(s *session) error {
	if s.h.NoHalfClose {
		return nil
	}
	a, b, err := s.pair()
	if err != nil {
		return err
	}
	if err := b.(*transport.Conn).CloseWrite(); err != nil {
		return err
	}
	if err := errors.Join(a.SetDeadline(time.Now().Add(s.h.within())), b.SetDeadline(time.Now().Add(s.h.within()))); err != nil {
		return err
	}
	if n, err := a.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the half close: %d bytes, %w", n, orNone(err))
	}
	words := sample(100_000, 4)
	go func() {
		_, _ = a.Write(words) // the other end checks what arrives
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	if !bytes.Equal(got, words) {
		return fmt.Errorf("the other way %d of %d bytes arrived: %w", len(got), len(words), orNone(err))
	}
	return nil
}

// answersHalfClose makes the peer respond to a half close, and close at once. The response must
// arrive at a reader that is late.
func answersHalfClose(s *session) error {
	if s.h.NoHalfClose {
		return nil
	}
	for _, fromClient := range []bool{true, false} {
		dialed, accepted, err := s.pair()
		if err != nil {
			return err
		}
		a, b := dialed.(*transport.Conn), accepted.(*transport.Conn)
		if !fromClient {
			a, b = b, a
		}
		if err := errors.Join(a.SetDeadline(time.Now().Add(s.h.within())), b.SetDeadline(time.Now().Add(s.h.within()))); err != nil {
			return err
		}
		if err := b.CloseWrite(); err != nil {
			return err
		}
		if n, err := a.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
			return fmt.Errorf("after the half close: %d bytes, %w", n, orNone(err))
		}
		words, sent := sample(100_000, 4), make(chan error, 1)
		go func() {
			_, err := a.Write(words)
			sent <- errors.Join(err, a.CloseWrite(), a.Close())
		}()
		<-time.After(lateReader)
		got, err := io.ReadAll(b)
		if !bytes.Equal(got, words) {
			return fmt.Errorf("%d of %d bytes arrived (from the client: %t): %w", len(got), len(words), fromClient, orNone(err))
		}
		if late, err := s.result("the write", sent); late != nil || err != nil {
			return errors.Join(late, err)
		}
	}
	return nil
}

// stuffed writes to c, whose peer does not read, until a write waits. The writer's error comes
// on the channel.
func (s *session) stuffed(c net.Conn) (<-chan error, error) {
	var written atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for block := sample(32<<10, 5); ; written.Add(1) {
			if _, err := c.Write(block); err != nil {
				ended <- err
				return
			}
		}
	}()
	for last, same := int64(0), 0; same < 10; {
		select {
		case err := <-ended:
			return nil, fmt.Errorf("a write to a peer that does not read failed after %d blocks: %w", written.Load(), err)
		case <-s.ctx.Done():
			return nil, fmt.Errorf("writes to a peer that does not read still succeed after %d blocks of 32 KiB", written.Load())
		case <-time.After(10 * time.Millisecond): // a condition is polled
		}
		now := written.Load()
		if same++; now != last {
			last, same = now, 0
		}
		if last > 8<<10 {
			return nil, errors.New("256 MiB were written to a peer that does not read")
		}
	}
	return ended, nil
}

func closeWhileWriting(s *session) error {
	a, _, err := s.pair()
	if err != nil {
		return err
	}
	ended, err := s.stuffed(a)
	if err != nil {
		return err
	}
	_ = a.Close() // its error may be that not all was written
	late, err := s.result("the end of the write", ended)
	if late == nil && err == nil {
		late = errors.New("a write to a closed connection succeeded")
	}
	return late
}

func closeWhileReading(s *session) error {
	a, b, err := s.pair()
	if err != nil {
		return err
	}
	for what, c := range map[string]net.Conn{"the client's": a, "the server's": b} {
		ended := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
		if err := c.Close(); err != nil {
			return err
		}
		late, err := s.result("the end of "+what+" read", ended)
		if late != nil || err == nil {
			return errors.Join(late, errors.New("there was nothing to read"))
		}
		if _, err := c.Write([]byte("x")); err == nil {
			return errors.New("a write to a closed connection succeeded")
		}
	}
	return nil
}

func readDeadline(s *session) error {
	a, b, err := s.pair()
	if err != nil {
		return err
	}
	for what, c := range map[string]net.Conn{"the client's": a, "the server's": b} {
		ended := make(chan error, 1)
		go func() { // may wait already, or not yet: both must work
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
		if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
			return err
		}
		late, err := s.result("the end of "+what+" read", ended)
		if late != nil || !isTimeout(err) {
			return errors.Join(late, fmt.Errorf("%s read past its deadline: %w", what, orNone(err)))
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	return s.pingPong(a, b)
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout() || errors.Is(err, os.ErrDeadlineExceeded)
}

func writeDeadline(s *session) error {
	a, _, err := s.pair()
	if err != nil {
		return err
	}
	ended, err := s.stuffed(a)
	if err != nil {
		return err
	}
	if err := a.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	late, err := s.result("the end of the write", ended)
	if late == nil && !isTimeout(err) {
		late = fmt.Errorf("a write past its deadline: %w", orNone(err))
	}
	return late
}

func listenerCloses(s *session) error {
	ln, err := s.h.Server.Listen(s.ctx, s.h.Address())
	if err != nil {
		return err
	}
	s.atEnd(func() { _ = ln.Close() })
	a, b, err := s.pairOn(ln)
	if err != nil {
		return err
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := ln.Accept()
		accepted <- err
	}()
	if err := ln.Close(); err != nil {
		return err
	}
	late, err := s.result("the end of Accept", accepted)
	if late != nil || !errors.Is(err, net.ErrClosed) {
		return errors.Join(late, fmt.Errorf("accept on a closed listener: %w", orNone(err)))
	}
	return s.pingPong(a, b)
}

// nowhere dials an address whose listener was just closed.
func nowhere(s *session) error {
	ln, err := s.h.Server.Listen(s.ctx, s.h.Address())
	if err != nil {
		return err
	}
	address := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	dialed := make(chan error, 1)
	go func() {
		c, err := s.h.client().Dial(ctx, address)
		if err == nil {
			_ = c.Close()
		}
		dialed <- err
	}()
	late, err := s.result("the end of the dial", dialed)
	if late != nil || err == nil || !strings.Contains(err.Error(), address) {
		return errors.Join(late, fmt.Errorf("dialing %s: %w", address, orNone(err)))
	}
	c, err := s.dial(s.h.Name+"://"+address, client.WithConnections(client.Connections{Timeout: time.Second}), client.WithWait(time.Second))
	if err != nil {
		return err
	}
	err = c.Call(s.ctx, "Test.Echo", &[]byte{}, nil)
	if e := tandem.AsError(orNone(err)); e.Code != tandem.Unavailable || !e.NotExecuted || !strings.Contains(e.Message, address) {
		return fmt.Errorf("calling %s: %w", address, orNone(err))
	}
	return nil
}

// silent opens a connection and sends nothing. Meanwhile other clients are served.
func silent(s *session) error {
	v, _, err := s.serve(server.WithHandshakeTimeout(500*time.Millisecond), server.WithProtocols(lines{}))
	if err != nil {
		return err
	}
	conn, err := s.h.client().Dial(s.ctx, v.ln.Addr().String())
	if err != nil {
		return err
	}
	s.atEnd(func() { _ = conn.Close() })
	conn = transport.Wrap(conn)
	c, err := s.dial(s.target(v))
	if err != nil {
		return err
	}
	if err := echo(s.ctx, c, sample(10, 0)); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(s.h.within())); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || isTimeout(err) {
		return fmt.Errorf("a silent connection was answered: %d bytes, %w", n, orNone(err))
	}
	return echo(s.ctx, c, sample(10, 0))
}

// trickle sends the first bytes one at a time, to a server that has to detect their protocol.
func trickle(s *session) error {
	v, _, err := s.serve(server.WithProtocols(lines{}))
	if err != nil {
		return err
	}
	c, err := s.dialOver(dribble{s.h.client()}, s.target(v))
	if err != nil {
		return err
	}
	return errors.Join(echo(s.ctx, c, sample(100, 0)), echo(s.ctx, c, sample(100_000, 0)))
}

func otherProtocol(s *session) error {
	v, _, err := s.serve(server.WithProtocols(lines{}))
	if err != nil {
		return err
	}
	c, err := s.dial(s.target(v))
	if err != nil {
		return err
	}
	if err := echo(s.ctx, c, sample(10, 0)); err != nil {
		return err
	}
	conn, err := dribble{s.h.client()}.Dial(s.ctx, v.ln.Addr().String())
	if err != nil {
		return err
	}
	s.atEnd(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(s.h.within())); err != nil {
		return err
	}
	const line = "LINE what comes back\n"
	if _, err := io.WriteString(conn, line); err != nil {
		return err
	}
	got := make([]byte, len(line))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != line {
		return fmt.Errorf("the other protocol answered %q: %w", got, orNone(err))
	}
	return nil
}
