package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// Open sends the request, or queues it while the peer or the writer has no
// room for it.
func (m *Machine) Open(p *Call, now int64) *tandem.Error {
	p.codec, p.packer = m.codecIndex(p.Codec), m.compressorIndex(p.Compressor)
	if err := m.refusal(p); err != nil {
		return err
	}
	if p.Expires != 0 && p.Expires <= now {
		return GivenUp(errDeadline, true)
	}
	if len(m.queue) > 0 || !m.room() {
		if len(m.queue) >= maxQueued && m.vacant >= maxQueued/4 { // otherwise each call would search the queue
			m.queue = slices.DeleteFunc(m.queue, func(p *Call) bool { return p.State != CallQueued })
			m.vacant = 0
		}
		if len(m.queue) >= maxQueued {
			return &tandem.Error{Code: tandem.ResourceExhausted, NotExecuted: true, Message: fmt.Sprintf("%d calls are waiting to be sent to %s", maxQueued, m.peerName())}
		}
		p.State = CallQueued
		if p.OneWay { // its caller does not wait
			p.Message = append([]byte(nil), p.Message...)
		}
		m.queue = append(m.queue, p)
		m.noteDeadline(p.Expires)
		return nil
	}
	m.send(p, now)
	return nil
}

// room reports whether a request may be sent now.
func (m *Machine) room() bool { return !m.calls.full() && m.QueuedBytes() < WriteSoft }

// refusal returns why a call can't be made on this connection, or nil.
func (m *Machine) refusal(p *Call) *tandem.Error {
	refuse := func(code tandem.Code, format string, args ...any) *tandem.Error {
		return &tandem.Error{Code: code, NotExecuted: true, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case m.closed != nil:
		return unsent(nil, fmt.Sprintf("connection to %s is closed: %s", m.peerName(), m.closed.Message))
	case m.away != nil:
		return drainError(m.peerName() + " is draining")
	case p.Method == "" || len(p.Method) > wire.MaxName:
		return refuse(tandem.InvalidArgument, "method name of %d bytes, allowed 1 to %d", len(p.Method), wire.MaxName)
	case p.codec == NoCodec:
		return refuse(tandem.Unimplemented, "%s does not know codec %q; it has %q", m.peerName(), p.Codec, m.peer.Codecs)
	case p.Compressor != "" && p.packer == 0:
		return refuse(tandem.Unimplemented, "%s does not know compressor %q; it has %q", m.peerName(), p.Compressor, m.peer.Compressors)
	case uint64(len(p.Message)) > m.peer.MaxMessage:
		return refuse(tandem.ResourceExhausted, "message of %d bytes, %s takes at most %d: see its WithMaxMessage", len(p.Message), m.peerName(), m.peer.MaxMessage)
	}
	return nil
}

// NoCodec is the number of a codec that is not known.
const NoCodec = 0xff

// codecIndex returns the peer's number of a codec, or NoCodec if the peer does not know
// it. It remembers the codec of the last call: with many connections the peer's list is
// in no cache.
func (m *Machine) codecIndex(name string) uint8 {
	if name != m.codec || name == "" {
		m.codec, m.codecNumber = name, NoCodec
		if i := slices.Index(m.peer.Codecs, name); i >= 0 {
			m.codecNumber = uint8(i) //nolint:gosec // at most wire.MaxListed
		}
	}
	return m.codecNumber
}

// compressorIndex returns the peer's number of a compressor; 0 for none or one it does not know.
func (m *Machine) compressorIndex(name string) uint8 {
	if name == "" {
		return 0
	}
	return uint8(slices.Index(m.peer.Compressors, name) + 1) //nolint:gosec // at most wire.MaxListed
}

// send appends the request's first frame and puts the rest in the ring.
func (m *Machine) send(p *Call, now int64) {
	flags := wire.Flags(0)
	if p.Compressed {
		flags |= wire.FlagCompressed
	}
	m.sent++
	p.Ordinal = m.sent
	h := wire.Header{Type: wire.TypeRequest}
	whole := len(p.Message)+len(p.Metadata)+len(p.Method)+64 <= wire.MaxBlock
	switch {
	case p.OneWay && whole:
		flags |= wire.FlagOneWay
	case p.OneWay:
		flags |= wire.FlagOneWay
		h.Stream = m.calls.take(p)
	default:
		h.Stream = m.calls.take(p)
	}
	if p.Stream != nil {
		flags |= wire.FlagStream
	}
	r := wire.Request{Codec: p.codec, Compressor: p.packer, Attempt: uint32(p.Attempt), Metadata: p.Metadata} //nolint:gosec // small
	if p.Expires != 0 {
		r.Timeout = remaining(p.Expires, now)
		m.noteDeadline(p.Expires)
	}
	if !whole {
		r.Size = uint64(len(p.Message))
	}
	p.id, p.State = h.Stream, CallOpen
	r.Name = m.sentNames.reference(p.Method)

	b := m.buf()
	start := len(b.B)
	b.B = append(b.B, make([]byte, wire.HeaderLen)...)
	b.B = wire.AppendRequest(b.B, &r)
	first := len(p.Message)
	if !whole {
		first = m.firstBlock(first, wire.MaxBlock-(len(b.B)-start-wire.HeaderLen))
	}
	b.B = append(b.B, p.Message[:first]...)
	h.Length = len(b.B) - start - wire.HeaderLen
	h.Flags = flags
	p.end = m.taken + uint64(len(b.B))
	if first == len(p.Message) {
		h.Flags |= wire.FlagEnd
		if p.OneWay && h.Stream != 0 { // the message fitted after all: the slot is not needed
			m.calls.release(h.Stream)
			p.State = CallOver
		}
	} else {
		p.end = notSent
		p.rest = &bulk{id: p.id, data: p.Message[first:], call: p}
		if p.OneWay { // the caller does not wait, and may change its message
			p.rest.data = append([]byte(nil), p.rest.data...)
		}
		m.ring.add(p.rest)
	}
	wire.PutHeader(b.B[start:], h)
}

// remaining is the time left, at least a microsecond: zero means no deadline.
func remaining(deadline, now int64) time.Duration {
	return max(time.Microsecond, time.Duration(deadline-now))
}

// noteDeadline keeps earliest a lower bound of all deadlines.
func (m *Machine) noteDeadline(d int64) {
	if d != 0 && (m.earliest == 0 || d < m.earliest) {
		m.earliest = d
	}
}

// Promote sends queued calls for which there is room now.
func (m *Machine) Promote(now int64) {
	n := 0
	for n < len(m.queue) && m.room() {
		if p := m.queue[n]; p.State == CallQueued {
			m.send(p, now)
		} else {
			m.vacant--
		}
		m.queue[n] = nil
		n++
	}
	if m.queue = m.queue[n:]; len(m.queue) == 0 {
		m.queue = nil
	}
}

// Leave gives up a call of this side: its slot stays taken until the peer answers.
func (m *Machine) Leave(p *Call) {
	switch p.State {
	case CallOpen:
		m.abandon(p)
	case CallQueued:
		m.vacant++
	}
	p.State = CallLeft
}

// abandon cancels an open call at the peer. Its slot stays taken until the peer answers.
func (m *Machine) abandon(p *Call) {
	if s := m.calls.get(p.id); s != nil {
		s.p = nil
	}
	m.ring.remove(p.rest)
	m.dropAssembly(p.answer)
	p.rest, p.answer = nil, nil
	b := m.buf()
	b.B = wire.AppendHeader(b.B, wire.Header{Type: wire.TypeCancel, Stream: p.id})
}

// GiveUp ends the calls for which why returns an error, and returns those to be woken. waits
// reports whether others are left. unsent tells why that no byte of the request may have reached
// the peer; offered is how many bytes may have reached the connection. A call of which the peer
// knows keeps its slot until the peer answers.
func (m *Machine) GiveUp(offered uint64, why func(p *Call, unsent bool) *tandem.Error) (over []*Call, waits bool) {
	for i := range m.calls.slots {
		p := m.calls.slots[i].p
		if p == nil {
			continue
		}
		e := why(p, p.end > offered)
		if e == nil {
			waits = true
			continue
		}
		m.abandon(p)
		if p.Stream != nil {
			m.endRecv(p.Stream, e)
			p.Stream.discard()
		}
		if p.State == CallOver { // a stream that was accepted: no goroutine waits for done
			continue
		}
		p.complete(e)
		over = append(over, p)
	}
	for i, p := range m.queue {
		if p.State != CallQueued {
			continue
		}
		e := why(p, true)
		if e == nil {
			waits = true
			continue
		}
		m.queue[i] = &Call{State: CallLeft}
		m.vacant++
		p.complete(e)
		over = append(over, p)
	}
	return over, waits
}

// HasRequestWithin reports whether a call of the peer has a deadline that has not passed.
func (m *Machine) HasRequestWithin(now int64) bool {
	for _, in := range m.served {
		if in != nil && in.Expires > now {
			return true
		}
	}
	return false
}

// finish frees the slot of a call that the peer has answered.
func (m *Machine) finish(id wire.Stream, p *Call, err *tandem.Error) Event {
	m.calls.release(id)
	if p == nil {
		return Event{}
	}
	m.ring.remove(p.rest)
	m.dropAssembly(p.answer)
	if p.State == CallOver { // a stream that was accepted: no goroutine waits for done
		return Event{}
	}
	p.complete(err)
	return Event{Kind: Done, Call: p}
}

func (m *Machine) onResponse(h wire.Header, payload []byte) (Event, error) {
	s := m.calls.get(h.Stream)
	switch {
	case h.Flags&wire.FlagAnswer == 0:
		return Event{}, violationf("response without the answer flag")
	case s == nil:
		return Event{}, nil // the call is over
	case s.p != nil && s.p.Stream != nil:
		return m.onStreamResponse(h, s.p, payload)
	case s.p == nil: // the caller has given up the call
		if h.Flags&wire.FlagEnd != 0 {
			m.calls.release(h.Stream)
		}
		return Event{}, nil
	}
	p := s.p
	if p.payload != nil {
		return Event{}, violationf("second response to a call")
	}
	p.payload = buffer.Get()
	p.payload.B = append(p.payload.B, payload...)
	p.ReplyCompressed = h.Flags&wire.FlagCompressed != 0
	if h.Flags&wire.FlagEnd != 0 {
		return m.finish(h.Stream, p, nil), nil
	}
	return m.startAnswer(h.Stream, p, payload)
}

// startAnswer begins to reassemble a response of several blocks.
func (m *Machine) startAnswer(id wire.Stream, p *Call, payload []byte) (Event, error) {
	var r wire.Response
	block, err := wire.ParseResponse(payload, &r)
	if err != nil {
		return Event{}, err
	}
	if r.Size > m.Own.MaxMessage {
		m.abandon(p)
		p.complete(&tandem.Error{Code: tandem.ResourceExhausted, Message: fmt.Sprintf("response of %d bytes, limit %d: see WithMaxMessage", r.Size, m.Own.MaxMessage)})
		return Event{Kind: Done, Call: p}, nil
	}
	p.body = len(payload) - len(block)
	p.answer = &assembly{id: id, buf: p.payload, have: len(block), size: int(r.Size)} //nolint:gosec // at most MaxMessage
	return Event{}, m.startAssembly(p.answer)
}

// onData handles a block of a request, of a response, or of a stream's message.
func (m *Machine) onData(h wire.Header, payload []byte, now int64) (Event, error) {
	if h.Flags&wire.FlagStream != 0 {
		return m.onStreamData(h, payload)
	}
	if h.Flags&wire.FlagAnswer != 0 {
		s := m.calls.get(h.Stream)
		switch {
		case s == nil:
			return Event{}, nil
		case s.p == nil: // the caller has given up the call
			if h.Flags&wire.FlagEnd != 0 {
				m.calls.release(h.Stream)
			}
			return Event{}, nil
		case s.p.answer == nil:
			return Event{}, violationf("data for a call without a response")
		}
		done, err := m.extend(s.p.answer, h, payload, now)
		if err != nil || !done {
			return Event{}, err
		}
		return m.finish(h.Stream, s.p, nil), nil
	}
	in := m.serving(h.Stream)
	if in == nil || in.arriving == nil {
		return Event{}, nil // the call was refused or canceled meanwhile
	}
	done, err := m.extend(in.arriving, h, payload, now)
	if err != nil || !done {
		return Event{}, err
	}
	return m.startRun(in, nil, in.arriving.buf), nil
}

func (m *Machine) onReset(h wire.Header, payload []byte) (Event, error) {
	if h.Flags&wire.FlagAnswer == 0 {
		return Event{}, violationf("reset without the answer flag")
	}
	s := m.calls.get(h.Stream)
	if s == nil {
		return Event{}, nil
	}
	e := tandem.AsError(StatusError(payload))
	if e == nil {
		e = &tandem.Error{Code: tandem.Unavailable, Message: "the server ended the call without a status", Remote: true}
	}
	p := s.p
	if p != nil && p.Stream != nil {
		m.endRecv(p.Stream, e)
	}
	return m.finish(h.Stream, p, e), nil
}
