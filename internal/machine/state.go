package machine

import (
	"github.com/tandem-rpc/tandem/wire"
)

// Closed reports whether End was called.
func (m *Machine) Closed() bool { return m.closed != nil }

// TakesCalls reports whether calls may be made.
func (m *Machine) TakesCalls() bool { return m.away == nil && m.closed == nil }

// Away returns why no more calls may be made; nil while they may.
func (m *Machine) Away() *wire.GoAway { return m.away }

// IsDraining reports whether this side accepts no more calls.
func (m *Machine) IsDraining() bool { return m.draining }

// OpenCalls returns how many calls of this side have a slot.
func (m *Machine) OpenCalls() int { return m.calls.open }

// QueuedCalls returns how many places of the queue are taken by calls that wait to be sent.
func (m *Machine) QueuedCalls() int { return len(m.queue) }

// Running returns how many calls of the peer run.
func (m *Machine) Running() int { return m.running }

// Arriving returns how many large messages are arriving.
func (m *Machine) Arriving() int { return len(m.incoming.list) }

// IsBusy reports whether a call is open, runs or arrives.
func (m *Machine) IsBusy() bool {
	return m.calls.open+len(m.queue)+m.running+len(m.incoming.list) > 0
}

// AllAnswered reports whether every accepted request is answered, those that were
// still arriving included, and nothing is left to write.
func (m *Machine) AllAnswered() bool {
	for _, in := range m.served {
		if in != nil {
			return false
		}
	}
	return m.running == 0 && m.out == nil && len(m.ring.list) == 0
}

// Frames returns how many frames were received.
func (m *Machine) Frames() uint64 { return m.frames }

// Taken returns how many bytes Take has returned so far.
func (m *Machine) Taken() uint64 { return m.taken }

// Sent returns how many requests were sent so far.
func (m *Machine) Sent() uint64 { return m.sent }

// Accepted returns how many requests have arrived, without those after Drain.
func (m *Machine) Accepted() uint64 { return m.accepted }

// NextDeadline returns an instant before which no deadline of an open call is; 0 for none.
func (m *Machine) NextDeadline() int64 { return m.earliest }

// PeerSettings returns what the peer accepts.
func (m *Machine) PeerSettings() *wire.Settings { return &m.peer }

// SetAge says how long ago, in ns, the next frame has arrived at this host.
func (m *Machine) SetAge(age int64) { m.age = age }

// Measure says how many bytes a write took, and how many seconds. A link that is slow gets small
// blocks.
func (m *Machine) Measure(n int, seconds float64) {
	if n >= slowBlock || seconds > 1 {
		m.slow = float64(n) < slowRate*seconds
	}
}

// Awoke says that this process did not run for a while, in which nothing could arrive.
func (m *Machine) Awoke() { m.incoming.given = true }

// Counts are figures of a connection, for tests of the machine's user.
type Counts struct {
	Slots    int   // calls of the peer that are open
	Sending  int   // large messages that are sent
	Arriving int   // large messages that arrive
	Held     int64 // bytes of those, arrived or covered by credit
	Waiting  int   // of those, how many wait for their stream's receiver

	ConnOwed  int64 // credit of all streams together that was consumed and not yet returned
	ConnSpare int64 // credit of all streams together that the peer still has
	ConnRoom  int64 // credit of all streams together that this side has
}

// Counts returns the figures of now.
func (m *Machine) Counts() Counts {
	c := Counts{
		Sending: len(m.ring.list), Arriving: len(m.incoming.list), Held: m.incoming.held,
		ConnOwed: m.connOwed, ConnSpare: m.connSpare, ConnRoom: m.connRoom,
	}
	for _, in := range m.served {
		if in != nil {
			c.Slots++
		}
	}
	for _, a := range m.incoming.list {
		if a.awaitsReceiver() {
			c.Waiting++
		}
	}
	return c
}

// HasGone reports whether Gone would return a stream.
func (m *Machine) HasGone() bool { return m.gone != nil }

// Gone returns the streams of this side that have ended since it was last called.
func (m *Machine) Gone() []*Stream {
	gone := m.gone
	m.gone = nil
	return gone
}
