package session

import (
	"fmt"
	"io"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// onStreamResponse handles a response to a stream of ours: the first accepts it, the last ends it.
func (m *machine) onStreamResponse(h wire.Header, p *Call, payload []byte) (event, error) {
	if h.Flags&wire.FlagLast == 0 { // accepted
		if p.State == CallOver {
			return event{}, violationf("stream accepted twice")
		}
		p.payload = buffer.Get()
		p.payload.B = append(p.payload.B, payload...)
		p.Stream.id = h.Stream
		m.stream = p.Stream
		p.complete(nil)
		return event{wake: p}, nil
	}
	var r wire.Response
	if _, err := wire.ParseResponse(payload, &r); err != nil {
		return event{}, err
	}
	err := statusError(r.Status)
	if md, bad := wire.ParseMetadata(r.Trailer); bad == nil {
		p.Trailer = md
	}
	if p.State != CallOver && err == nil {
		err = &tandem.Error{Code: tandem.Internal, Message: "stream ended before it was accepted", Remote: true}
	}
	p.Stream.endRecv(err)
	return m.finish(h.Stream, p, tandem.AsError(err)), nil
}

// endRecv ends both directions. Messages that have arrived can still be received. A
// nil error means that the stream ended without one. The session's mutex is held.
func (st *Stream) endRecv(err error) {
	if st.over {
		return
	}
	st.over = true
	if st.s.m.stream == st {
		st.s.m.stream = nil
	}
	st.s.m.ring.remove(st.sending)
	st.sending = nil
	st.dropPartial()
	// Queued messages stay receivable; the connection's credit for them is
	// returned now, since they may never be received.
	for i := range st.queue {
		st.s.m.returnConn(st.queue[i].cost)
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
	signal(st.canRecv)
	signal(st.canSend)
	if st.cancel != nil {
		st.cancel(st.recvErr)
	}
}

// dropPartial drops a message that won't be completed.
func (st *Stream) dropPartial() {
	m := &st.s.m
	m.dropAssembly(st.assembling)
	m.returnConn(st.partialCost - st.early)
	st.partial.Put()
	st.assembling, st.partial, st.partialCost, st.early = nil, nil, 0, 0
}

// discard drops the messages that were not received. The stream must be over.
func (st *Stream) discard() {
	for _, msg := range st.queue {
		msg.buf.Put()
	}
	st.queue = nil
}

// onStreamData handles a block of a stream's message. It counts credit even for
// streams that are over: else the connection would lose it.
func (m *machine) onStreamData(h wire.Header, payload []byte) (event, error) {
	if h.Flags&(wire.FlagLast|wire.FlagEnd) == wire.FlagLast {
		return event{}, m.onHalfClose(h, payload)
	}
	cost := int64(len(payload) + wire.HeaderLen)
	if m.connSpare -= cost; m.connSpare < 0 {
		return event{}, violationf("streams: %d bytes more than the connection's window allows", -m.connSpare)
	}
	st := m.streamOf(h)
	if st == nil || st.over {
		m.returnConn(cost)
		return event{}, nil
	}
	if st.spare -= cost; st.spare < 0 {
		return event{}, violationf("stream: %d bytes more than its window allows", -st.spare)
	}
	if st.recvErr != nil {
		return event{}, violationf("stream data after its end")
	}
	st.take(m, h, payload, cost)
	return event{}, nil
}

// onHalfClose ends one direction of a stream. The frame is empty and costs no credit.
func (m *machine) onHalfClose(h wire.Header, payload []byte) error {
	if len(payload) > 0 {
		return violationf("end of a stream's messages with %d bytes", len(payload))
	}
	// For a stream of ours the final response follows, which may be an error.
	if st := m.streamOf(h); st != nil && st.recvErr == nil && st.in != nil {
		st.recvErr = io.EOF
		signal(st.canRecv)
	}
	return nil
}

func (m *machine) streamOf(h wire.Header) *Stream {
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

// take appends a block to the message that is arriving, and queues it when it is complete.
func (st *Stream) take(m *machine, h wire.Header, payload []byte, cost int64) {
	if st.partial == nil {
		st.partial, st.packed = st.newPartial(h, len(payload)), h.Flags&wire.FlagCompressed != 0
	}
	st.partialCost += cost
	if len(st.partial.B)+len(payload) > st.most {
		st.refuse(m)
		return
	}
	st.partial.B = append(st.partial.B, payload...)
	if h.Flags&wire.FlagEnd == 0 {
		if st.assembling == nil {
			st.assembling = &assembly{stream: st}
			m.incoming.list = append(m.incoming.list, st.assembling)
		}
		m.grant()
		return
	}
	msg := streamMessage{st.partial, st.packed, st.partialCost - st.early}
	m.dropAssembly(st.assembling)
	st.assembling, st.partial, st.partialCost, st.early = nil, nil, 0, 0
	st.queue = append(st.queue, msg)
	signal(st.canRecv)
	m.grant() // the connection's window may be short now
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

// refuse ends a stream whose message is too large.
func (st *Stream) refuse(m *machine) {
	e := &tandem.Error{Code: tandem.ResourceExhausted, Message: fmt.Sprintf("stream message of more than %d bytes: see WithMaxMessage", st.most)}
	if st.side == 0 {
		if st.call.State != CallLeft {
			m.abandon(st.call)
		}
	} else {
		st.in.cancel(canceled)
	}
	st.endRecv(e)
}

// returnCredit gives the peer n more bytes for the stream.
func (m *machine) returnCredit(st *Stream, n int64) {
	st.spare += n
	b := m.buf()
	b.B = wire.AppendWindow(b.B, st.id, st.side, uint32(n)) //nolint:gosec // at most MaxWindow
}

// roomShort reports whether the credit of all streams to the peer runs out: then
// one message at a time is sent to its end.
func (m *machine) roomShort() bool {
	return m.connRoom < int64(m.peer.ConnWindow)/2 //nolint:gosec // at most MaxWindow
}

// connShort reports whether the streams together have little credit left.
func (m *machine) connShort() bool {
	return m.connSpare < int64(m.own.ConnWindow)/4 //nolint:gosec // at most MaxWindow
}

// returnConn gives the peer n more bytes for all streams together. It collects them
// up to a quarter of the window, unless the peer has little left.
func (m *machine) returnConn(n int64) {
	m.connOwed += n
	if m.connOwed == 0 || m.connOwed < int64(m.own.ConnWindow)/4 && !m.connShort() { //nolint:gosec // at most MaxWindow
		return
	}
	m.connSpare += m.connOwed
	b := m.buf()
	b.B = wire.AppendWindow(b.B, 0, 0, uint32(m.connOwed)) //nolint:gosec // at most MaxWindow
	m.connOwed = 0
}
