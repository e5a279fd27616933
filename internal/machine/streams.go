package machine

import (
	"context"
	"fmt"
	"io"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// Stream is what the machine knows of a stream, at either end. The session embeds it, and passes it
// to InitStream before anything else.
type Stream struct {
	ID   wire.Stream
	side wire.Flags // FlagAnswer when the peer opened it
	call *Call      // of this side; nil if the peer opened the stream
	in   *Request   // of the peer; nil if this side opened it

	window int64 // initial credit of the peer
	most   int   // limit of a message in bytes

	CanRecv chan struct{}           // holds a token when the receiver should look again
	CanSend chan struct{}           // likewise for the sender
	Cancel  context.CancelCauseFunc // for the session: to be called when Gone returns the stream

	queue       []Message
	room        [8]Message     // first memory of queue
	partial     *buffer.Buffer // the message that is arriving
	packed      bool           // partial is compressed
	partialCost int64          // credit that partial used
	early       int64          // part of partialCost that was returned before the message was complete
	assembling  *assembly
	spare       int64 // credit that the peer still has
	owed        int64 // credit of consumed messages that is not returned yet
	recvErr     error // what Recv returns once queue is empty
	credit      int64 // credit that this side has
	sending     *bulk
	outgoing    bulk  // the memory of sending
	sendErr     error // what a send returns; nil while the stream can send
	over        bool  // the stream has ended
}

// Message is a message of a stream that has arrived.
type Message struct {
	Buf        *buffer.Buffer
	Compressed bool
	cost       int64 // credit to return when it is consumed
}

// InitStream makes st the stream of a call that this side will open, or of a request of the peer
// that an event wants to be run; the other is nil. most is the limit of a message in bytes, 0 for
// the connection's.
func (m *Machine) InitStream(st *Stream, call *Call, in *Request, most int) {
	st.call, st.in = call, in
	st.window = int64(m.Own.StreamWindow) //nolint:gosec // at most MaxWindow
	st.spare = st.window
	st.credit = int64(m.peer.StreamWindow) //nolint:gosec // at most MaxWindow
	if st.most = most; most == 0 {
		st.most = int(m.Own.MaxMessage) //nolint:gosec // bounded by memory
	}
	st.CanRecv, st.CanSend = make(chan struct{}, 1), make(chan struct{}, 1)
	if in != nil {
		st.ID, st.side, in.stream = in.ID, wire.FlagAnswer, st
	} else {
		call.Stream = st
	}
}

// MaxMessage returns the limit of a message in bytes.
func (st *Stream) MaxMessage() int { return st.most }

// IsOver reports whether the stream has ended. Messages that have arrived before can still be received.
func (st *Stream) IsOver() bool { return st.over }

// RecvErr returns what the receiver gets when no message is left: io.EOF after the last message,
// another error if the stream has ended with it, nil while more may come.
func (st *Stream) RecvErr() error { return st.recvErr }

// SendErr returns why the stream can't send, nil while it can.
func (st *Stream) SendErr() error { return st.sendErr }

// IsSending reports whether a part of the message that was sent last is not in the write buffer yet.
func (st *Stream) IsSending() bool { return st.sending != nil }

// HasSent reports whether the whole message that was sent last is in the write buffer.
func (st *Stream) HasSent() bool { return st.outgoing.sent }

// Receivable reports whether a receiver need not wait.
func (st *Stream) Receivable() bool { return len(st.queue) > 0 || st.recvErr != nil }

// HasMessage reports whether a message can be received.
func (st *Stream) HasMessage() bool { return len(st.queue) > 0 }

// Pop returns the next message, and gives its credit back to the peer. There must be one.
func (m *Machine) Pop(st *Stream) Message {
	msg := st.queue[0]
	st.queue[0] = Message{}
	switch st.queue = st.queue[1:]; {
	case len(st.queue) > 0:
		Signal(st.CanRecv)
	case cap(st.queue) < 4:
		st.queue = st.room[:0] // instead of a new array for every few messages
	}
	if st.over {
		return msg
	}
	defer m.grant()
	m.returnConn(msg.cost)
	if st.owed += msg.cost; st.owed >= st.window/2 {
		m.returnCredit(st, st.owed)
		st.owed = 0
	}
	return msg
}

// headRoom is room for a frame's header before a stream's message.
var headRoom [wire.HeaderLen]byte

// AppendHeadRoom appends the bytes that must come before a message in the buffer passed to Send.
func AppendHeadRoom(b []byte) []byte { return append(b, headRoom[:]...) }

// Send queues a message: the bytes of buf after its head room. The buffer belongs to the machine
// then. It must not be called while IsSending. If alone is true and the message is not small and
// may be sent at once, buf becomes the next buffer to write, without a copy; whole reports that.
func (m *Machine) Send(st *Stream, buf *buffer.Buffer, compressed, alone bool) (whole bool) {
	first := wire.Flags(0)
	if compressed {
		first = wire.FlagCompressed
	}
	st.outgoing = bulk{id: st.ID, flags: st.side | wire.FlagStream, first: first, data: buf.B[wire.HeaderLen:], stream: st, owner: buf}
	msg := &st.outgoing
	if alone && m.sendWhole(msg) {
		return true
	}
	st.sending = msg
	m.ring.add(msg)
	m.pump()
	return false
}

// sendWhole makes the buffer of a stream's message the next one to write, without a copy, if the
// message is not small and nothing else is queued.
func (m *Machine) sendWhole(msg *bulk) bool {
	n := len(msg.data)
	if n < smallBlock || m.closed != nil || m.out != nil || len(m.ring.list) > 0 {
		return false
	}
	if can, ok := m.sendable(msg, m.onlyMessage()); !ok || can < n {
		return false
	}
	m.charge(msg, n)
	m.out, msg.owner = msg.owner, nil
	wire.PutHeader(m.out.B, wire.Header{Length: n, Type: wire.TypeData, Flags: msg.flags | msg.first | wire.FlagEnd, Stream: msg.id})
	return true
}

// CloseSend tells the peer that no more messages come on a stream of this side.
func (m *Machine) CloseSend(st *Stream) {
	if st.sendErr != nil {
		return
	}
	st.sendErr = io.EOF
	b := m.buf()
	b.B = wire.AppendHeader(b.B, wire.Header{Type: wire.TypeData, Flags: wire.FlagStream | wire.FlagLast, Stream: st.ID})
}

// Accept sends the first response of a stream of the peer, unless it was sent or the stream is over.
func (m *Machine) Accept(in *Request) {
	if !in.accepted && !in.canceled && m.serving(in.ID) == in {
		in.accepted = true
		m.appendResponse(in.ID, &wire.Response{}, wire.FlagStream, nil)
	}
}

// Abort ends a stream from this side, unless it is over. Messages that were not received are dropped.
func (m *Machine) Abort(st *Stream, e *tandem.Error) {
	if st.over {
		return
	}
	if st.in == nil && st.call.State == CallOver {
		m.abandon(st.call)
	}
	m.endRecv(st, e)
	st.discard()
}

// OnlyStream returns the stream that is the only open call, or nil. A stream whose
// sender waits for credit does not count: a goroutine must read for it.
func (m *Machine) OnlyStream() *Stream {
	st := m.stream
	if st == nil || st.over || st.sending != nil || m.calls.open != 1 || len(m.queue)+m.running > 0 {
		return nil
	}
	return st
}

// Signal puts a token into a channel of capacity one.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// onStreamResponse handles a response to a stream of ours: the first accepts it, the last ends it.
func (m *Machine) onStreamResponse(h wire.Header, p *Call, payload []byte) (Event, error) {
	if h.Flags&wire.FlagLast == 0 { // accepted
		if p.State == CallOver {
			return Event{}, violationf("stream accepted twice")
		}
		p.payload = buffer.Get()
		p.payload.B = append(p.payload.B, payload...)
		p.Stream.ID = h.Stream
		m.stream = p.Stream
		p.complete(nil)
		return Event{Kind: Done, Call: p}, nil
	}
	var r wire.Response
	if _, err := wire.ParseResponse(payload, &r); err != nil {
		return Event{}, err
	}
	err := StatusError(r.Status)
	if md, bad := wire.ParseMetadata(r.Trailer); bad == nil {
		p.Trailer = md
	}
	if p.State != CallOver && err == nil {
		err = &tandem.Error{Code: tandem.Internal, Message: "stream ended before it was accepted", Remote: true}
	}
	m.endRecv(p.Stream, err)
	return m.finish(h.Stream, p, tandem.AsError(err)), nil
}

// endRecv ends both directions. Messages that have arrived can still be received. A
// nil error means that the stream ended without one.
func (m *Machine) endRecv(st *Stream, err error) {
	if st.over {
		return
	}
	st.over = true
	if m.stream == st {
		m.stream = nil
	}
	m.ring.remove(st.sending)
	st.sending = nil
	m.dropPartial(st)
	// Queued messages stay receivable; the connection's credit for them is
	// returned now, since they may never be received.
	for i := range st.queue {
		m.returnConn(st.queue[i].cost)
		st.queue[i].cost = 0
	}
	if st.recvErr == nil || err != nil {
		st.recvErr = err
		if err == nil {
			st.recvErr = io.EOF
		}
	}
	if st.sendErr == nil {
		st.sendErr = st.recvErr
	}
	Signal(st.CanRecv)
	Signal(st.CanSend)
	if st.call != nil {
		m.gone = append(m.gone, st)
	}
}

// dropPartial drops a message that won't be completed.
func (m *Machine) dropPartial(st *Stream) {
	m.dropAssembly(st.assembling)
	m.returnConn(st.partialCost - st.early)
	st.partial.Put()
	st.assembling, st.partial, st.partialCost, st.early = nil, nil, 0, 0
}

// discard drops the messages that were not received. The stream must be over.
func (st *Stream) discard() {
	for _, msg := range st.queue {
		msg.Buf.Put()
	}
	st.queue = nil
}

// onStreamData handles a block of a stream's message. It counts credit even for
// streams that are over: else the connection would lose it.
func (m *Machine) onStreamData(h wire.Header, payload []byte) (Event, error) {
	if h.Flags&(wire.FlagLast|wire.FlagEnd) == wire.FlagLast {
		return Event{}, m.onHalfClose(h, payload)
	}
	cost := int64(len(payload) + wire.HeaderLen)
	if m.connSpare -= cost; m.connSpare < 0 {
		return Event{}, violationf("streams: %d bytes more than the connection's window allows", -m.connSpare)
	}
	st := m.streamOf(h)
	if st == nil || st.over {
		m.returnConn(cost)
		return Event{}, nil
	}
	if st.spare -= cost; st.spare < 0 {
		return Event{}, violationf("stream: %d bytes more than its window allows", -st.spare)
	}
	if st.recvErr != nil {
		return Event{}, violationf("stream data after its end")
	}
	return m.takeBlock(st, h, payload, cost), nil
}

// onHalfClose ends one direction of a stream. The frame is empty and costs no credit.
func (m *Machine) onHalfClose(h wire.Header, payload []byte) error {
	if len(payload) > 0 {
		return violationf("end of a stream's messages with %d bytes", len(payload))
	}
	// For a stream of ours the final response follows, which may be an error.
	if st := m.streamOf(h); st != nil && st.recvErr == nil && st.in != nil {
		st.recvErr = io.EOF
		Signal(st.CanRecv)
	}
	return nil
}

func (m *Machine) streamOf(h wire.Header) *Stream {
	if h.Flags&wire.FlagAnswer != 0 {
		if s := m.calls.get(h.Stream); s != nil && s.p != nil {
			return s.p.Stream
		}
		return nil
	}
	if in := m.serving(h.Stream); in != nil {
		return in.stream
	}
	return nil
}

// takeBlock appends a block to the message that is arriving, and queues it when it is complete.
func (m *Machine) takeBlock(st *Stream, h wire.Header, payload []byte, cost int64) Event {
	if st.partial == nil {
		st.partial, st.packed = st.newPartial(h, len(payload)), h.Flags&wire.FlagCompressed != 0
	}
	st.partialCost += cost
	if len(st.partial.B)+len(payload) > st.most {
		return m.refuseMessage(st)
	}
	st.partial.B = append(st.partial.B, payload...)
	if h.Flags&wire.FlagEnd == 0 {
		if st.assembling == nil {
			st.assembling = &assembly{stream: st}
			m.incoming.list = append(m.incoming.list, st.assembling)
		}
		m.grant()
		return Event{}
	}
	msg := Message{st.partial, st.packed, st.partialCost - st.early}
	m.dropAssembly(st.assembling)
	st.assembling, st.partial, st.partialCost, st.early = nil, nil, 0, 0
	st.queue = append(st.queue, msg)
	Signal(st.CanRecv)
	m.grant() // the connection's window may be short now
	return Event{}
}

// newPartial returns a buffer for a message whose first block has n bytes. Where
// small messages queue up, each gets a buffer of its size: a pooled one could be a
// thousand times as large as what the peer has sent.
func (st *Stream) newPartial(h wire.Header, n int) *buffer.Buffer {
	if h.Flags&wire.FlagEnd != 0 && len(st.queue) >= 4 && n < 4<<10 {
		return &buffer.Buffer{B: make([]byte, 0, n)}
	}
	return buffer.Get()
}

// refuseMessage ends a stream whose message is too large.
func (m *Machine) refuseMessage(st *Stream) Event {
	e := &tandem.Error{Code: tandem.ResourceExhausted, Message: fmt.Sprintf("stream message of more than %d bytes: see WithMaxMessage", st.most)}
	if st.in == nil && st.call.State != CallLeft {
		m.abandon(st.call)
	}
	m.endRecv(st, e)
	if st.in != nil {
		return Event{Kind: Canceled, Request: st.in}
	}
	return Event{}
}

// returnCredit gives the peer n more bytes for the stream.
func (m *Machine) returnCredit(st *Stream, n int64) {
	st.spare += n
	b := m.buf()
	b.B = wire.AppendWindow(b.B, st.ID, st.side, uint32(n)) //nolint:gosec // at most MaxWindow
}

// roomShort reports whether the credit of all streams to the peer runs out: then
// one message at a time is sent to its end.
func (m *Machine) roomShort() bool {
	return m.connRoom < int64(m.peer.ConnWindow)/2 //nolint:gosec // at most MaxWindow
}

// connShort reports whether the streams together have little credit left.
func (m *Machine) connShort() bool {
	return m.connSpare < int64(m.Own.ConnWindow)/4 //nolint:gosec // at most MaxWindow
}

// returnConn gives the peer n more bytes for all streams together. It collects them
// up to a quarter of the window, unless the peer has little left.
func (m *Machine) returnConn(n int64) {
	m.connOwed += n
	if m.connOwed == 0 || m.connOwed < int64(m.Own.ConnWindow)/4 && !m.connShort() { //nolint:gosec // at most MaxWindow
		return
	}
	m.connSpare += m.connOwed
	b := m.buf()
	b.B = wire.AppendWindow(b.B, 0, 0, uint32(m.connOwed)) //nolint:gosec // at most MaxWindow
	m.connOwed = 0
}
