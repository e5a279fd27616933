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
	"github.com/tandem-rpc/tandem/wire"
)

var errEOF = io.EOF

// Stream is one side of a stream of messages, a [tandem.MessageStream].
type Stream struct {
	s          *Session
	id         wire.Stream
	side       wire.Flags // FlagAnswer when the peer opened it
	codec      tandem.Codec
	compressor tandem.Compressor
	ctx        context.Context
	cancel     context.CancelCauseFunc // client side only
	call       *Call                   // client side only
	in         *Inbound                // server side only
	window     int64                   // initial credit of the peer
	most       int                     // limit of a message in bytes, before and after decompression

	canRecv chan struct{}
	canSend chan struct{}

	// Guarded by the session's mutex.
	queue       []streamMessage
	room        [8]streamMessage // first memory of queue
	partial     *buffer.Buffer   // the message that is arriving
	packed      bool             // partial is compressed
	partialCost int64            // credit that partial used
	early       int64            // part of partialCost that was returned before the message was complete
	assembling  *assembly
	spare       int64 // credit that the peer still has
	owed        int64 // credit of consumed messages that is not returned yet
	recvErr     error // what Recv returns once queue is empty
	credit      int64 // credit that this side has
	sending     *bulk
	outgoing    bulk         // the memory of sending
	sendErr     error        // what SendMsg returns; nil while it can send
	over        bool         // the stream has ended
	hold        *budget.Hold // memory of the message received last; nil while nothing is reserved
}

type streamMessage struct {
	buf    *buffer.Buffer
	packed bool
	cost   int64 // credit to return when it is consumed
}

func newStream(m *machine, id wire.Stream, in *Inbound) *Stream {
	st := &Stream{
		s: m.s, id: id, in: in,
		window:  int64(m.own.StreamWindow),  //nolint:gosec // at most MaxWindow
		most:    int(m.own.MaxMessage),      //nolint:gosec // bounded by memory
		spare:   int64(m.own.StreamWindow),  //nolint:gosec // as above
		credit:  int64(m.peer.StreamWindow), //nolint:gosec // as above
		canRecv: make(chan struct{}, 1), canSend: make(chan struct{}, 1),
	}
	if in != nil {
		st.ctx, st.codec, st.side = in, in.codec(), wire.FlagAnswer
		if n := in.method.target.MaxMessage; n > 0 {
			st.most = n
		}
		if in.packer > 0 {
			st.compressor = in.compressor()
		}
	}
	return st
}

// Open opens a stream and waits, at most until openBy, for the peer to accept
// it. The stream ends at p's deadline. p belongs to the stream from then on.
func (s *Session) Open(ctx context.Context, p *Pending, openBy time.Time) (*Stream, error) {
	st := newStream(&s.m, 0, nil)
	st.codec, st.compressor, st.call = s.env.Codec(p.Codec), s.env.Compressor(p.Compressor), &p.Call
	st.ctx, st.cancel = StreamContext(ctx, p.Deadline)
	p.Stream = st
	if err := s.openStream(st.ctx, p, openBy); err != nil {
		st.cancel(err)
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
	defer msg.buf.Put()
	return st.decode(msg, v)
}

// decode decodes a message. The memory for that stays reserved until the next message is received.
func (st *Stream) decode(msg streamMessage, v any) error {
	st.releaseHold()
	data := msg.buf.B
	if msg.packed {
		if st.compressor == nil {
			return &tandem.Error{Code: tandem.Internal, Message: "compressed stream message without a compressor"}
		}
		plain := buffer.Get()
		defer plain.Put()
		b, err := budget.Decompress(st, st.compressor, plain.B, data, st.most)
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
func (st *Stream) next() (streamMessage, error) {
	for {
		st.s.mu.Lock()
		if len(st.queue) > 0 {
			msg := st.pop()
			lead := st.s.leadLocked(0)
			st.s.mu.Unlock()
			if lead {
				st.s.write()
			}
			return msg, nil
		}
		if err := st.recvErr; err != nil {
			st.s.mu.Unlock()
			return streamMessage{}, err
		}
		if st.receiveUnlock() {
			continue
		}
		st.s.mu.Unlock()
		select {
		case <-st.canRecv:
		case <-st.ctx.Done():
			st.Abort(st.ctx.Err())
		}
	}
}

func (st *Stream) pop() streamMessage {
	msg := st.queue[0]
	st.queue[0] = streamMessage{}
	switch st.queue = st.queue[1:]; {
	case len(st.queue) > 0:
		signal(st.canRecv)
	case cap(st.queue) < 4:
		st.queue = st.room[:0] // instead of a new array for every few messages
	}
	if st.over {
		return msg
	}
	defer st.s.m.grant()
	st.s.m.returnConn(msg.cost)
	if st.owed += msg.cost; st.owed >= st.window/2 {
		st.s.m.returnCredit(st, st.owed)
		st.owed = 0
	}
	return msg
}

// SendMsg encodes v and returns when all of it is in the write buffer: it
// waits while the peer's window is full.
func (st *Stream) SendMsg(v any) error {
	e := st.s.env
	buf := buffer.Get()
	b, err := codec.Append(st.codec, append(buf.B, noHead[:]...), v)
	if err != nil {
		buf.Put()
		return &tandem.Error{Code: tandem.Internal, Message: "stream message: " + err.Error()}
	}
	buf.B = b
	first := wire.Flags(0)
	if st.compressor != nil && len(b)-len(noHead) >= e.cfg.CompressAbove {
		packed := buffer.Get()
		if p, err := st.compressor.Compress(append(packed.B, noHead[:]...), b[len(noHead):]); err == nil && len(p) < len(b) {
			packed.B = p
			buf, packed = packed, buf
			first = wire.FlagCompressed
		}
		packed.Put()
	}
	st.outgoing = bulk{id: st.id, flags: st.side | wire.FlagStream, first: first, data: buf.B[len(noHead):], stream: st, owner: buf}
	return st.send(&st.outgoing)
}

// noHead is room for a frame's header before a stream's message.
var noHead [wire.HeaderLen]byte

func (st *Stream) send(msg *bulk) error {
	s := st.s
	if uint64(len(msg.data)) > s.m.peer.MaxMessage {
		msg.owner.Put()
		return &tandem.Error{
			Code:    tandem.ResourceExhausted,
			Message: fmt.Sprintf("stream message of %d bytes, %s takes at most %d: see its WithMaxMessage", len(msg.data), s.remote(), s.m.peer.MaxMessage),
		}
	}
	st.acceptFirst()
	s.mu.Lock()
	if st.sendErr != nil {
		err := st.sendErr
		s.mu.Unlock()
		msg.owner.Put()
		return SendError(err)
	}
	if s.sendWholeLocked(msg) {
		s.mu.Unlock()
		s.write()
		return nil
	}
	st.sending = msg
	s.m.ring.add(msg)
	s.m.pump()
	lead := s.leadLocked(0)
	s.mu.Unlock()
	if lead {
		s.write()
	}
	return st.waitSent(msg)
}

// sendWholeLocked makes the buffer of a stream's message the next one to write,
// without a copy, if the message is not small and nothing else is queued. On true,
// the caller is the writer and must call write.
func (s *Session) sendWholeLocked(msg *bulk) bool {
	m := &s.m
	n := len(msg.data)
	if n < smallBlock || s.writing || s.reserved || m.closed != nil || m.out != nil || len(m.ring.list) > 0 {
		return false
	}
	if can, ok := m.sendable(msg, m.onlyMessage()); !ok || can < n {
		return false
	}
	m.charge(msg, n)
	m.out, msg.owner = msg.owner, nil
	wire.PutHeader(m.out.B, wire.Header{Length: n, Type: wire.TypeData, Flags: msg.flags | msg.first | wire.FlagEnd, Stream: msg.id})
	s.writing = true
	return true
}

func (st *Stream) waitSent(msg *bulk) error {
	for {
		st.s.mu.Lock()
		sending, err := st.sending == msg, st.sendErr
		st.s.mu.Unlock()
		switch {
		case !sending && err != nil && !msg.sent:
			return SendError(err)
		case !sending:
			return nil
		}
		st.s.resume() // a goroutine must read, for credit to arrive
		select {
		case <-st.canSend:
		case <-st.ctx.Done():
			st.Abort(st.ctx.Err())
		}
	}
}

// SendError returns the error of a send on a stream that has ended with err; io.EOF means without an error.
func SendError(err error) error {
	if err == io.EOF { //nolint:errorlint // set by us
		return &tandem.Error{Code: tandem.FailedPrecondition, Message: "the stream is over"}
	}
	return err
}

// CloseSend tells the peer that no more messages come from this side.
func (st *Stream) CloseSend() error {
	if st.in != nil {
		return nil // a handler ends its messages by returning
	}
	s := st.s
	s.mu.Lock()
	if st.sendErr != nil {
		s.mu.Unlock()
		return nil //nolint:nilerr // there is nothing left to close
	}
	st.sendErr = io.EOF
	b := s.m.buf()
	b.B = wire.AppendHeader(b.B, wire.Header{Type: wire.TypeData, Flags: wire.FlagStream | wire.FlagLast, Stream: st.id})
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
	if !st.over && st.in == nil {
		if st.call.State == CallOver {
			s.m.abandon(st.call)
		}
	}
	if !st.over {
		st.endRecv(GivenUp(cause, false))
		st.discard()
	}
	lead := s.leadLocked(0)
	if s.receiving == st {
		s.relieveLocked()
	}
	s.mu.Unlock()
	if st.cancel != nil {
		st.cancel(cause)
	}
	if lead {
		s.write()
	}
}

// accept sends the first response of a stream that the peer opened.
func (st *Stream) accept() {
	st.acceptFirst()
	st.s.flush()
}

func (st *Stream) acceptFirst() {
	if st.in == nil {
		return
	}
	s := st.s
	s.mu.Lock()
	if !st.in.accepted && !st.in.canceled && s.m.serving(st.id) == st.in {
		st.in.accepted = true
		s.m.appendResponse(st.id, &wire.Response{}, wire.FlagStream, nil)
	}
	s.mu.Unlock()
}

// signal puts a token into a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// IsOver reports whether the stream has ended.
func (st *Stream) IsOver() bool {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.over
}

// Outcome returns the error that the stream ended with, or nil.
func (st *Stream) Outcome() error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if errors.Is(st.recvErr, errEOF) {
		return nil
	}
	return st.recvErr
}
