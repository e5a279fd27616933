package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Connect begins the handshake on a new connection to a server, the instance of that ID,
// and starts the session. It closes conn when it fails.
func (e *Env) Connect(ctx context.Context, conn net.Conn, instance string) (*Session, error) {
	s := e.newSession(context.Background(), conn)
	s.peer.Instance = instance
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	rd := s.newReader(0)
	err := s.hello(rd, func(peer *wire.Settings) error {
		asked := s.now()
		if _, err := conn.Write(wire.AppendPreface(nil, e.cfg.Settings)); err != nil {
			return err
		}
		err := rd.preface(peer)
		s.rtt.Store(max(1, s.now()-asked)) // until the first ping measures it better
		return err
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if transport.WantsTLS(rd.buf[rd.r:rd.w]) {
			err = transport.ErrServerWantsTLS
		}
		rd.release()
		return nil, errors.Join(fmt.Errorf("handshake with %s: %w", s.remote(), err), conn.Close())
	}
	s.callersRead = e.cfg.Resolve == nil && s.conn.CanTry()
	if !e.Spawn(rd.loop) {
		s.Close()
		return nil, ErrClosed
	}
	return s, nil
}

// Accept answers the preface of a client, whose first bytes may have been read
// already, and returns the session and the function that reads it. That
// function returns when the connection ends or another goroutine reads on. ctx
// is the base of the handlers' contexts. A caller that has read head must also have
// set the deadline of the handshake. before, if not nil, is called when the client's preface has
// come and before this side's is sent; if it fails, so does Accept. Accept closes conn when it
// fails.
func (e *Env) Accept(ctx context.Context, conn net.Conn, head []byte, before func() error) (*Session, func(), error) {
	s := e.newSession(ctx, conn)
	rd := s.newReader(0)
	if len(head) > 0 {
		rd.buf = buffer.GetRead(len(head) > buffer.SmallRead)
		rd.w = copy(rd.buf, head)
	}
	err := s.hello(rd, func(peer *wire.Settings) error {
		if err := rd.preface(peer); err != nil {
			return err
		}
		if before != nil {
			if err := before(); err != nil {
				return err
			}
		}
		_, err := conn.Write(wire.AppendPreface(nil, e.cfg.Settings))
		return err
	})
	if err != nil {
		err = transport.AnswerMismatch(conn, rd.buf[rd.r:rd.w], err)
		rd.release()
		return nil, nil, errors.Join(fmt.Errorf("handshake with %s: %w", s.remote(), err), conn.Close())
	}
	return s, rd.loop, nil
}

// hello exchanges prefaces within the handshake's time.
func (s *Session) hello(rd *reader, exchange func(peer *wire.Settings) error) error {
	if rd.w == 0 { // else the caller of Accept has read the head and set the deadline
		if err := s.conn.SetDeadline(time.Now().Add(s.env.cfg.Handshake)); err != nil {
			return err
		}
	}
	var peer wire.Settings
	if err := exchange(&peer); err != nil {
		return err
	}
	s.peer.TLS = transport.TLSState(s.conn)
	s.m.Init(&peer)
	rd.now = s.now()
	s.backlog.Waited(rd.now)
	return s.conn.SetDeadline(time.Time{})
}

// preface reads the peer's preface; bytes that follow it stay in the buffer.
func (rd *reader) preface(peer *wire.Settings) error {
	if rd.buf == nil {
		rd.Take()
	}
	if err := rd.readAtLeast(wire.PrefaceLen); err != nil {
		return err
	}
	_, n, err := wire.ParsePrefaceHead(rd.buf[rd.r:rd.w])
	if err != nil {
		return err
	}
	if err := rd.readAtLeast(wire.PrefaceLen + n); err != nil {
		return err
	}
	rd.r += wire.PrefaceLen
	*peer, err = wire.ParseSettings(rd.buf[rd.r : rd.r+n])
	rd.r += n
	return err
}

// readAtLeast reads until n unparsed bytes are in the buffer.
func (rd *reader) readAtLeast(n int) error {
	rd.makeRoom(n)
	for rd.w-rd.r < n {
		k, err := rd.s.conn.Read(rd.buf[rd.w:])
		rd.w += k
		if err != nil && rd.w-rd.r < n {
			if errors.Is(err, io.EOF) && rd.w > rd.r {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
