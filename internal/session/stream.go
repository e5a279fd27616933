package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// Stream is one side of a stream of messages, a [tandem.MessageStream].
type Stream struct {
	m machine.Stream // guarded by the session's mutex

	s          *Session
	codec      tandem.Codec
	compressor tandem.Compressor
	ctx        context.Context
	call       *Pending // client side only
	in         *Inbound // server side only

	hold *budget.Hold // memory of the message received last; nil while nothing is reserved; guarded by the session's mutex
}

// newInboundStream returns the stream of a call of the peer.
func (s *Session) newInboundStream(in *Inbound) *Stream {
	st := &Stream{s: s, in: in, ctx: in, codec: in.codec()}
	if in.Compressor > 0 {
		st.compressor = in.compressor()
	}
	s.m.InitStream(&st.m, nil, &in.Request, in.method.target.MaxMessage)
	return st
}

// Open opens a stream and waits, at most until openBy, for the peer to accept
// it. The stream ends at p's deadline. p belongs to the stream from then on.
func (s *Session) Open(ctx context.Context, p *Pending, openBy time.Time) (*Stream, error) {
	st := &Stream{s: s, call: p, codec: s.env.Codec(p.Codec), compressor: s.env.Compressor(p.Compressor)}
	s.m.InitStream(&st.m, &p.Call, nil, 0)
	st.ctx, st.m.Cancel = StreamContext(ctx, p.Deadline)
	if err := s.openStream(st.ctx, p, openBy); err != nil {
		st.m.Cancel(err)
		return nil, err
	}
	context.AfterFunc(st.ctx, func() { st.Abort(context.Cause(st.ctx)) })
	return st, nil
}

// StreamContext returns the context of a stream that this side opens: it ends with ctx, at
// deadline if that is not zero, and when the returned function is called.
func StreamContext(ctx context.Context, deadline time.Time) (context.Context, context.CancelCauseFunc) {
	own, cancel := context.WithCancelCause(ctx)
	if d, ok := ctx.Deadline(); deadline.IsZero() || ok && !d.After(deadline) {
		return own, cancel // ctx ends no later than deadline
	}
	timed, stop := context.WithDeadline(own, deadline)
	return timed, func(cause error) {
		cancel(cause)
		stop()
	}
}

func (s *Session) openStream(ctx context.Context, p *Pending, openBy time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, openBy)
	defer cancel()
	_, err := s.open(p)
	p.sent(err)
	if err != nil {
		return err
	}
	select {
	case <-p.Done:
		return p.result(s)
	case <-ctx.Done():
		return s.leave(p, ctx.Err())
	}
}

// Context returns the stream's context, which ends with the stream.
func (st *Stream) Context() context.Context { return st.ctx }

// Trailer returns the metadata of the server's final response; valid once the stream is over.
func (st *Stream) Trailer() tandem.Metadata {
	if st.call == nil {
		return nil
	}
	return st.call.Trailer
}

// RecvMsg decodes the next message into v.
func (st *Stream) RecvMsg(v any) error {
	msg, err := st.next()
	if err != nil {
		return err
	}
	defer msg.Buf.Put()
	return st.decode(msg, v)
}

// decode decodes a message. The memory for that stays reserved until the next message is received.
func (st *Stream) decode(msg machine.Message, v any) error {
	st.releaseHold()
	data := msg.Buf.B
	if msg.Compressed {
		if st.compressor == nil {
			return &tandem.Error{Code: tandem.Internal, Message: "compressed stream message without a compressor"}
		}
		plain := buffer.Get()
		defer plain.Put()
		b, err := budget.Decompress(st, st.compressor, plain.B, data, st.m.MaxMessage())
		if err != nil {
			return badMessage(err)
		}
		plain.B, data = b, b
	}
	if st.in == nil || st.in.method.target.isLight(len(data), v) {
		return badMessage(codec.Decode(st.codec, data, v))
	}
	return badMessage(codec.DecodeWithin(st.codec, data, v, st))
}

// badMessage returns the error of a message that did not decode; nil for nil.
func badMessage(err error) error {
	if err == nil {
		return nil
	}
	if e := memoryError(err); e != nil {
		return e
	}
	return &tandem.Error{Code: tandem.InvalidArgument, Message: "stream message: " + err.Error()}
}

// next waits for a message and gives its credit back to the peer.
func (st *Stream) next() (machine.Message, error) {
	for {
		st.s.mu.Lock()
		if st.m.HasMessage() {
			msg := st.s.m.Pop(&st.m)
			lead := st.s.leadLocked(0)
			st.s.mu.Unlock()
			if lead {
				st.s.write()
			}
			return msg, nil
		}
		if err := st.m.RecvErr(); err != nil {
			st.s.mu.Unlock()
			return machine.Message{}, err
		}
		if st.receiveUnlock() {
			continue
		}
		st.s.mu.Unlock()
		select {
		case <-st.m.CanRecv:
		case <-st.ctx.Done():
			st.Abort(st.ctx.Err())
		}
	}
}

// SendMsg encodes v and returns when all of it is in the write buffer: it
// waits while the peer's window is full.
func (st *Stream) SendMsg(v any) error {
	e := st.s.env
	buf := buffer.Get()
	b, err := codec.Append(st.codec, machine.AppendHeadRoom(buf.B), v)
	if err != nil {
		buf.Put()
		return &tandem.Error{Code: tandem.Internal, Message: "stream message: " + err.Error()}
	}
	buf.B = b
	compressed := false
	if st.compressor != nil && len(b)-wire.HeaderLen >= e.cfg.CompressAbove {
		packed := buffer.Get()
		if p, err := st.compressor.Compress(machine.AppendHeadRoom(packed.B), b[wire.HeaderLen:]); err == nil && len(p) < len(b) {
			packed.B = p
			buf, packed = packed, buf
			compressed = true
		}
		packed.Put()
	}
	return st.send(buf, compressed)
}

// send queues a message, the bytes of buf after its head room, and waits until it is sent.
func (st *Stream) send(buf *buffer.Buffer, compressed bool) error {
	s := st.s
	if n, most := len(buf.B)-wire.HeaderLen, s.m.PeerSettings().MaxMessage; uint64(n) > most { //nolint:gosec // not negative
		buf.Put()
		return &tandem.Error{
			Code:    tandem.ResourceExhausted,
			Message: fmt.Sprintf("stream message of %d bytes, %s takes at most %d: see its WithMaxMessage", n, s.remote(), most),
		}
	}
	s.mu.Lock()
	if st.in != nil {
		s.m.Accept(&st.in.Request)
	}
	if err := st.m.SendErr(); err != nil {
		s.mu.Unlock()
		buf.Put()
		return SendError(err)
	}
	if s.m.Send(&st.m, buf, compressed, !s.writing && !s.reserved) {
		s.writing = true
		s.mu.Unlock()
		s.write()
		return nil
	}
	lead := s.leadLocked(0)
	s.mu.Unlock()
	if lead {
		s.write()
	}
	return st.waitSent()
}

func (st *Stream) waitSent() error {
	for {
		st.s.mu.Lock()
		sending, sent, err := st.m.IsSending(), st.m.HasSent(), st.m.SendErr()
		st.s.mu.Unlock()
		switch {
		case !sending && err != nil && !sent:
			return SendError(err)
		case !sending:
			return nil
		}
		st.s.resume() // a goroutine must read, for credit to arrive
		select {
		case <-st.m.CanSend:
		case <-st.ctx.Done():
			st.Abort(st.ctx.Err())
		}
	}
}

// SendError returns the error of a send on a stream that has ended with err; io.EOF means without an error.
func SendError(err error) error { return machine.SendError(err) }

// CloseSend tells the peer that no more messages come from this side.
func (st *Stream) CloseSend() error {
	if st.in != nil {
		return nil // a handler ends its messages by returning
	}
	s := st.s
	s.mu.Lock()
	s.m.CloseSend(&st.m)
	lead := s.leadLocked(0)
	s.mu.Unlock()
	if lead {
		s.write()
	}
	return nil
}

// Close ends the stream. On a client it cancels the call unless the stream is over.
func (st *Stream) Close() error {
	st.Abort(context.Canceled)
	return nil
}

// Abort ends the stream from this side, because of cause.
func (st *Stream) Abort(cause error) {
	s := st.s
	s.mu.Lock()
	s.m.Abort(&st.m, GivenUp(cause, false))
	s.endGoneLocked()
	lead := s.leadLocked(0)
	if s.receiving == st {
		s.relieveLocked()
	}
	s.mu.Unlock()
	if st.m.Cancel != nil {
		st.m.Cancel(cause)
	}
	if lead {
		s.write()
	}
}

// accept sends the first response of a stream that the peer opened.
func (st *Stream) accept() {
	if st.in != nil {
		st.s.mu.Lock()
		st.s.m.Accept(&st.in.Request)
		st.s.mu.Unlock()
	}
	st.s.flush()
}

// IsOver reports whether the stream has ended.
func (st *Stream) IsOver() bool {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.m.IsOver()
}

// Outcome returns the error that the stream ended with, or nil.
func (st *Stream) Outcome() error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if err := st.m.RecvErr(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
