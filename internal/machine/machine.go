// Package machine is tandem's protocol on one connection, both ways, as a state machine.
//
// The inputs are frames of the peer ([Machine.Receive]) and what this side does (Open, Respond, Send
// and others). The outputs are frames to write ([Machine.Take]) and events: calls to run, calls and
// streams that are over. The machine does no I/O, reads no clock, starts no goroutine and takes no
// lock: its user, package session, serializes all calls of its methods, and passes the time in
// nanoseconds since any start. Outside its own state it does two things: it puts tokens into a
// stream's channels, which wake the stream's receiver and sender, and it looks up methods in [Names].
package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// Bounds of a connection.
const (
	WriteSoft      = 1 << 20 // new calls wait while this much is queued to be written
	WriteHard      = 8 << 20 // requests are refused while this much is queued
	maxQueued      = 1 << 16 // calls waiting to be sent on one connection
	maxPongs       = 64      // answers to control frames waiting to be written
	bulkBatch      = 128 << 10
	AssemblyAhead  = 256 << 10 // bytes of credit for a large message beyond those that have arrived
	AssemblyBudget = 8 << 20   // bytes, arrived or granted, of all large messages of a connection; the oldest may exceed it
	MaxHeld        = 32 << 20  // large requests are refused while messages that are arriving hold more bytes than this
)

// ErrFlood is in the chain of the error of a peer that floods or does not read.
var ErrFlood = errors.New("the peer floods or does not read")

// Config is what a machine must know before it begins.
type Config struct {
	Remote   net.Addr // the peer's address, for the texts of errors; nil if it has none
	Names    Names
	Stall    time.Duration  // how long nothing of a large request may arrive
	Reserves bool           // the rest of a large request may not arrive before Grant
	Own      *wire.Settings // what this side accepts; the last, as every call needs it and the fields behind it in Machine
}

// Names finds methods. Lookup returns the method that the peer's requests name, or nil, and is called
// during Receive: once for each name that the peer has given a number, and for each request with
// another name or of a method that does not exist. number is negative if the name has none.
type Names interface {
	Lookup(name string, number int) *Method
}

// Method is what the machine needs to know of a method of this side.
type Method struct {
	Kind       tandem.Kind // Unary or Streaming
	Timeout    time.Duration
	MaxMessage int  // 0 for the connection's limit
	Reuse      bool // a request's memory may be reused once it is answered
	Guarded    bool // interceptors see calls that are refused: see Incoming.Refusal
	Absent     bool // it stands for methods that do not exist, of either kind
}

// Machine is the state of both directions of one connection. It must be told its Config, and the
// peer's settings with Init, before anything else. It is not safe for concurrent use.
type Machine struct {
	closed *tandem.Error // why the connection ended
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
	served   []*Request  // open calls by slot; nil for a free slot
	first    [1]*Request // the memory of served while that has one element
	names    receivedNames
	accepted uint64 // requests whose heads have arrived, without those after Drain
	age      int64  // ns since the current frame arrived at this host, as far as is known

	Config

	pongs     int   // pongs appended since Take was last called
	connOwed  int64 // credit of all streams together that was consumed and not yet returned
	connSpare int64 // credit of all streams together that the peer still has
	connRoom  int64 // credit of all streams together that this side has
	peer      wire.Settings
	gone      []*Stream // see Gone
}

// Kind is what an event asks for.
type Kind uint8

// Kinds of events.
const (
	None     Kind = iota
	Run           // the method of Request is to be run, or only its interceptors: see Incoming.Refusal
	Arrives       // the head of Request has come, the rest is to come: Run or Dropped follows
	Canceled      // the caller of Request, which runs, has canceled it
	Dropped       // the caller of Request, which was still arriving, has canceled it; it is over
	Done          // Call is over, or its stream is accepted
	Pong          // the answer to a ping came back
	Away          // the peer drains: no more calls may be made, and Lost is to be called
)

// Event is what is to be done because of a frame.
type Event struct {
	Kind    Kind
	Request *Request
	Call    *Call
	Ping    uint64 // what the ping carried that Pong answers
}

// Init begins, with the settings of the peer.
func (m *Machine) Init(peer *wire.Settings) {
	m.peer = *peer
	m.calls.limit = int32(min(peer.MaxOpen, wire.MaxOpenLimit))
	m.connSpare = int64(m.Own.ConnWindow) //nolint:gosec // at most MaxWindow
	m.connRoom = int64(peer.ConnWindow)   //nolint:gosec // at most MaxWindow
}

// peerName returns the peer's address for the text of an error.
func (m *Machine) peerName() string { return AddrName(m.Remote) }

// AddrName returns a peer's address for the text of an error.
func AddrName(a net.Addr) string {
	if a == nil {
		return "the peer"
	}
	return a.String()
}

// buf returns the buffer that frames are appended to.
func (m *Machine) buf() *buffer.Buffer {
	if m.out == nil {
		m.out = buffer.GetOut()
	}
	return m.out
}

// QueuedBytes returns how many bytes are ready to be written, without large messages.
func (m *Machine) QueuedBytes() int {
	if m.out == nil {
		return 0
	}
	return len(m.out.B)
}

// Take returns everything that can be written now, or nil, and counts it as taken.
func (m *Machine) Take() *buffer.Buffer {
	m.pump()
	b := m.out
	m.out, m.pongs = nil, 0
	if b != nil {
		m.taken += uint64(len(b.B))
	}
	return b
}

// HasOutput reports whether Take would return something.
func (m *Machine) HasOutput() bool { return m.out != nil || m.ring.ready(m) }

// Receive handles one frame. c must be given with a request frame; else it may be nil. Receive
// copies what it keeps of the payload, but the Message of an event's Request is a part of the
// payload. An error is fatal for the connection.
func (m *Machine) Receive(h wire.Header, payload []byte, now int64, c *Incoming) (Event, error) {
	m.frames++
	switch h.Type {
	case wire.TypeRequest:
		return m.onRequest(h, payload, now, c)
	case wire.TypeResponse:
		return m.onResponse(h, payload)
	case wire.TypeData:
		return m.onData(h, payload, now)
	case wire.TypeCancel:
		return m.onCancel(h.Stream), nil
	case wire.TypeReset:
		return m.onReset(h, payload)
	case wire.TypeWindow:
		return Event{}, m.onWindow(h, payload)
	case wire.TypePing:
		return Event{}, m.onPing(payload)
	case wire.TypePong:
		return onPong(payload)
	case wire.TypeGoAway:
		return m.onGoAway(payload)
	}
	return Event{}, nil // a type of a later version
}

func (m *Machine) onPing(payload []byte) error {
	p, err := wire.ParsePing(payload)
	if err != nil {
		return err
	}
	if m.pongs++; m.pongs > maxPongs {
		return fmt.Errorf("%w: more than %d pings unanswered", ErrFlood, maxPongs)
	}
	b := m.buf()
	b.B = wire.AppendPing(b.B, wire.TypePong, p)
	return nil
}

func onPong(payload []byte) (Event, error) {
	p, err := wire.ParsePing(payload)
	if n := binary.LittleEndian.Uint64(p[:]); err == nil && n != 0 { // 0 is no time at which this side sends
		return Event{Kind: Pong, Ping: n}, nil
	}
	return Event{}, err
}

func (m *Machine) onGoAway(payload []byte) (Event, error) {
	g, err := wire.ParseGoAway(payload)
	if err != nil {
		return Event{}, err
	}
	if m.away == nil || g.Accepted < m.away.Accepted {
		m.away = &g
	}
	if g.Reason != wire.ReasonDrain {
		return Event{}, fmt.Errorf("%s closed the connection: %s", m.peerName(), g.Message)
	}
	return Event{Kind: Away}, nil
}

// Expire ends the calls whose deadline has passed and returns them to be woken.
func (m *Machine) Expire(now int64) (over []*Call) {
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

// Lost ends the calls that will get no response, and returns those to be woken: all of them if the
// connection ended, and cause says why; with a nil cause, those that a draining peer has not accepted.
// offered is how many bytes may have reached the connection.
func (m *Machine) Lost(cause error, offered uint64, reason string) (over []*Call) {
	for i := range m.calls.slots {
		s := &m.calls.slots[i]
		p, refused := s.p, m.away != nil && s.ordinal > m.away.Accepted
		switch {
		case p == nil && refused && s.givenUp(): // the peer will not answer it
			m.calls.release(s.id)
			continue
		case p == nil || cause == nil && !refused:
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
			m.endRecv(p.Stream, e)
		}
		if ev := m.finish(s.id, p, e); ev.Kind == Done {
			over = append(over, p)
		}
	}
	return append(over, m.lostQueue(cause, reason)...)
}

func (m *Machine) lostQueue(cause error, reason string) (over []*Call) {
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

// End ends the connection: because of cause, with the reason as the text of errors. It returns the
// calls to be woken, and streams that are over are in Gone. offered is as for Lost.
func (m *Machine) End(cause error, offered uint64, reason string) (over []*Call) {
	m.closed = &tandem.Error{Code: tandem.Unavailable, Message: cause.Error()}
	over = m.Lost(cause, offered, reason)
	for _, in := range m.served {
		if in != nil && in.stream != nil {
			m.endRecv(in.stream, &tandem.Error{Code: tandem.Unavailable, Message: reason})
		}
	}
	m.served, m.ring.list, m.incoming.list = nil, nil, nil
	return over
}

// Drain tells the peer why no more calls are accepted, unless it was told before.
func (m *Machine) Drain(reason string) {
	if m.draining {
		return
	}
	m.draining = true
	b := m.buf()
	b.B = wire.AppendGoAway(b.B, wire.GoAway{Accepted: m.accepted, Message: reason})
}

// Retire lets no more calls be made, and reports whether they could be made before.
func (m *Machine) Retire() bool {
	if m.away != nil {
		return false
	}
	m.away = &wire.GoAway{Accepted: math.MaxUint64, Message: "retired"}
	return true
}

// Ping appends a ping, and returns the position of its end in all that is written.
func (m *Machine) Ping(p [8]byte) (end uint64) {
	b := m.buf()
	b.B = wire.AppendPing(b.B, wire.TypePing, p)
	return m.taken + uint64(len(b.B))
}
