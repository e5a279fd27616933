package session

import (
	"fmt"
	"net"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

func violationf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", wire.ErrViolation, fmt.Sprintf(format, args...))
}

// machine is the state of both directions of one connection. It does no I/O, reads
// no clock and starts no goroutine; the session's mutex guards it.
type machine struct {
	s      *Session
	env    *Env
	remote net.Addr      // the peer's address, for the texts of errors; nil if it has none
	stall  time.Duration // how long nothing of a large message may arrive; set before init
	closed *tandem.Error // why the session ended
	away   *wire.GoAway  // why no more calls may be made; nil while they may
	frames uint64        // frames received so far

	// Output.
	out   *buffer.Buffer // frames in wire order; nil when there are none
	taken uint64         // bytes given to the writer so far

	// Calls opened by us.
	sent        uint64 // requests whose heads were appended to out
	calls       slotTable
	queue       []*Call  // waiting for a slot or for room
	vacant      int      // entries of queue whose call was given up
	earliest    int64    // no deadline of an open call is before this instant
	running     int      // the peer's calls whose handlers have not returned, one-way calls included
	stream      *Stream  // the stream that was accepted last
	ring        bulkRing // written after out
	slow        bool     // the link carries less than slowRate
	incoming    assemblies
	sentNames   sentNames
	codec       string // the codec of the last call
	codecNumber uint8  // its number at the peer

	// Calls opened by the peer.
	draining bool        // this side accepts no more calls
	served   []*Inbound  // open calls by slot; nil for a free slot
	first    [1]*Inbound // the memory of served while that has one element
	names    receivedNames
	accepted uint64 // requests whose heads have arrived, without those after Drain
	age      int64  // ns since the current frame arrived at this host, as far as is known

	pongs     int            // pongs appended since take was last called
	connOwed  int64          // credit of all streams together that was consumed and not yet returned
	connSpare int64          // credit of all streams together that the peer still has
	connRoom  int64          // credit of all streams together that this side has
	own       *wire.Settings // set before init
	peer      wire.Settings
}

// event is what the session has to do for a frame; the zero value means nothing.
type event struct {
	run  *Inbound // a call to execute
	wake *Call    // a call of ours that is over
	pong uint64   // payload of our ping that came back; 0 for none
	away bool     // the peer drains
}

func (m *machine) init(peer wire.Settings) {
	m.peer = peer
	m.calls.limit = int32(min(peer.MaxOpen, wire.MaxOpenLimit))
	m.connSpare = int64(m.own.ConnWindow) //nolint:gosec // at most MaxWindow
	m.connRoom = int64(peer.ConnWindow)   //nolint:gosec // at most MaxWindow
}

// peerName returns the peer's address for the text of an error.
func (m *machine) peerName() string { return nameOf(m.remote) }

func nameOf(a net.Addr) string {
	if a == nil {
		return "the peer"
	}
	return a.String()
}

// buf returns the buffer that frames are appended to.
func (m *machine) buf() *buffer.Buffer {
	if m.out == nil {
		m.out = buffer.GetOut()
	}
	return m.out
}

func (m *machine) queuedBytes() int {
	if m.out == nil {
		return 0
	}
	return len(m.out.B)
}

// take returns everything that can be written now, or nil, and counts it as taken.
func (m *machine) take() *buffer.Buffer {
	m.pump()
	b := m.out
	m.out, m.pongs = nil, 0
	if b != nil {
		m.taken += uint64(len(b.B))
	}
	return b
}

// hasOutput reports whether take would return something.
func (m *machine) hasOutput() bool { return m.out != nil || m.ring.ready(m) }

// receive handles one frame. The payload belongs to the reader: receive copies what
// it keeps, except that the Inbound of an event refers to the payload.
func (m *machine) receive(h wire.Header, payload []byte, now int64) (event, error) {
	m.frames++
	switch h.Type {
	case wire.TypeRequest:
		return m.onRequest(h, payload, now)
	case wire.TypeResponse:
		return m.onResponse(h, payload)
	case wire.TypeData:
		return m.onData(h, payload, now)
	case wire.TypeCancel:
		m.onCancel(h.Stream)
	case wire.TypeReset:
		return m.onReset(h, payload)
	case wire.TypeWindow:
		return event{}, m.onWindow(h, payload)
	case wire.TypePing:
		return event{}, m.onPing(payload)
	case wire.TypePong:
		p, err := wire.ParsePing(payload)
		return event{pong: pingNumber(p)}, err
	case wire.TypeGoAway:
		return m.onGoAway(payload)
	}
	return event{}, nil // a type of a later version
}

func (m *machine) onPing(payload []byte) error {
	p, err := wire.ParsePing(payload)
	if err != nil {
		return err
	}
	if m.pongs++; m.pongs > maxPongs {
		return fmt.Errorf("%w: more than %d pings unanswered", errFlood, maxPongs)
	}
	b := m.buf()
	b.B = wire.AppendPing(b.B, wire.TypePong, p)
	return nil
}

func (m *machine) onGoAway(payload []byte) (event, error) {
	g, err := wire.ParseGoAway(payload)
	if err != nil {
		return event{}, err
	}
	if m.away == nil || g.Accepted < m.away.Accepted {
		m.away = &g
	}
	if g.Reason != wire.ReasonDrain {
		return event{}, fmt.Errorf("%s closed the connection: %s", m.peerName(), g.Message)
	}
	return event{away: true}, nil
}

// expire ends the calls whose deadline has passed and returns them to be woken.
func (m *machine) expire(now int64) (over []*Call) {
	m.expireRequests(now)
	if m.earliest == 0 || now < m.earliest {
		return nil
	}
	m.earliest = 0
	check := func(p *Call) bool {
		if p == nil || p.Expires == 0 || p.Stream != nil && p.State == CallOver {
			return false
		}
		if now < p.Expires {
			m.noteDeadline(p.Expires)
			return false
		}
		return true
	}
	for i := range m.calls.slots {
		if p := m.calls.slots[i].p; check(p) {
			m.abandon(p)
			p.complete(GivenUp(errDeadline, false))
			over = append(over, p)
		}
	}
	for i, p := range m.queue {
		if p.State == CallQueued && check(p) {
			m.queue[i] = &Call{State: CallLeft}
			m.vacant++
			p.complete(GivenUp(errDeadline, true))
			over = append(over, p)
		}
	}
	return over
}

// lost ends the calls that will get no response: all of them if the connection ended,
// and cause says why; with a nil cause, those that a draining peer has not accepted.
// offered is how many bytes may have reached the connection.
func (m *machine) lost(cause error, offered uint64, reason string) (over []*Call) {
	for i := range m.calls.slots {
		s := &m.calls.slots[i]
		p := s.p
		if p == nil {
			continue
		}
		refused := m.away != nil && p.Ordinal > m.away.Accepted
		if cause == nil && !refused {
			continue
		}
		e := &tandem.Error{Code: tandem.Unavailable, Message: reason}
		switch {
		case refused:
			e = drainError(reason)
		case p.end > offered:
			e = unsent(cause, reason)
		}
		if p.Stream != nil {
			p.Stream.endRecv(e)
		}
		if ev := m.finish(s.id, p, e); ev.wake != nil {
			over = append(over, p)
		}
	}
	return append(over, m.lostQueue(cause, reason)...)
}

func (m *machine) lostQueue(cause error, reason string) (over []*Call) {
	for _, p := range m.queue {
		switch {
		case p.State != CallQueued:
			continue
		case cause == nil:
			p.complete(drainError(reason))
		default:
			p.complete(unsent(cause, reason))
		}
		over = append(over, p)
	}
	m.queue, m.vacant = nil, 0
	return over
}
