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
	call       *Pending                // client side only
	in         *Inbound                // server side only
	window     int64                   // credit of a new stream towards us
	most       int                     // bytes of a message, before and after decompression

	canRecv chan struct{}
	canSend chan struct{}

	// Guarded by the session's mutex.
	queue       []streamMessage
	room        [8]streamMessage // for what is usually in queue
	partial     *buffer.Buffer   // the message that is arriving
	packed      bool             // it is compressed
	partialCost int64            // credit that it used
	early       int64            // of which was returned before it was complete
	assembling  *assembly
	spare       int64 // credit that the peer still has
	owed        int64 // credit of consumed messages, not yet returned
	recvErr     error // what Recv returns once queue is empty
	credit      int64 // that we have
	sending     *bulk
	outgoing    bulk  // what sending points to
	sendErr     error // why Send can't go on
	over        bool
	hold        *budget.Hold // of the message that was received last; nil while nothing is reserved
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
// it. It ends at p's deadline. p belongs to the stream from then on.
func (s *Session) Open(ctx context.Context, p *Pending, openBy time.Time) (*Stream, error) {
	st := newStream(&s.m, 0, nil)
	st.codec, st.compressor, st.call = s.env.Codec(p.Codec), s.env.Compressor(p.Compressor), p
	st.ctx, st.cancel = StreamContext(ctx, p.Deadline)
	p.stream = st
	if err := s.openStream(st.ctx, p, openBy); err != nil {
		st.cancel(err)
		return nil, err
	}
	context.AfterFunc(st.ctx, func() { st.Abort(context.Cause(st.ctx)) })
	return st, nil
}

// StreamContext makes the context of a stream of ours: it ends with ctx, at the deadline
// if there is one, and with the stream.
func StreamContext(ctx context.Context, deadline time.Time) (context.Context, context.CancelCauseFunc) {
	own, cancel := context.WithCancelCause(ctx)
	if d, ok := ctx.Deadline(); deadline.IsZero() || ok && !d.After(deadline) {
		return own, cancel // ctx sees to it
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
	case <-p.done:
		return p.result(s)
	case <-ctx.Done():
		return s.leave(p, ctx.Err())
	}
}

// Context ends when the stream does.
func (st *Stream) Context() context.Context { return st.ctx }

// Trailer is the metadata that ended a stream of ours; valid once it is over.
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

// decode decodes a message. What that takes is held until the next is received.
func (st *Stream) decode(msg streamMessage, v any) error {
	st.forgo()
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

// badMessage says that a stream's message did not decode, and returns nil for nil.
func badMessage(err error) error {
	if err == nil {
		return nil
	}
	if e := exhausted(err); e != nil {
		return e
	}
	return &tandem.Error{Code: tandem.InvalidArgument, Message: "stream message: " + err.Error()}
}

// next waits for a message and returns its credit.
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
		st.queue = st.room[:0] // not one array for each few messages
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

// noHead keeps room for a frame's head before a stream's message.
var noHead [wire.HeaderLen]byte

func (st *Stream) send(msg *bulk) error {
	s := st.s
	if uint64(len(msg.data)) > s.m.peer.MaxMessage {
		msg.owner.Put()
		return &tandem.Error{Code: tandem.ResourceExhausted, Message: fmt.Sprintf("stream message of %d bytes, %s takes at most %d", len(msg.data), s.remote(), s.m.peer.MaxMessage)}
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

// sendWholeLocked makes the buffer of a stream's message what is written next,
// with nothing copied, if it is not small and nothing else is to be written. The
// caller is the writer then.
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
		st.s.resume() // credit must be read
		select {
		case <-st.canSend:
		case <-st.ctx.Done():
			st.Abort(st.ctx.Err())
		}
	}
}

// SendError is what a sender sees: a stream that ended well takes no more.
func SendError(err error) error {
	if err == io.EOF { //nolint:errorlint // set by us
		return &tandem.Error{Code: tandem.FailedPrecondition, Message: "the stream is over"}
	}
	return err
}

// CloseSend tells the peer that no more messages come from this side.
func (st *Stream) CloseSend() error {
	if st.in != nil {
		return nil // a handler's end is the end of its messages
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

// Close ends the stream: on a client it cancels unless the stream is over.
func (st *Stream) Close() error {
	st.Abort(context.Canceled)
	return nil
}

// Abort gives the stream up from this side.
func (st *Stream) Abort(cause error) {
	s := st.s
	s.mu.Lock()
	if !st.over && st.in == nil {
		if st.call.state == callDone {
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

// Outcome is how a stream ended: nil if well.
func (st *Stream) Outcome() error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if errors.Is(st.recvErr, errEOF) {
		return nil
	}
	return st.recvErr
}
