// Package http2 is one connection of HTTP/2 (RFC 9113), of a server or a client, as a state machine.
//
// The inputs are bytes of the peer ([Machine.Receive]) and what this side sends (Header, Data, Finish
// and others). The outputs are bytes to write ([Machine.Output]) and events: messages that begin, go
// on, and end. The machine does no I/O, reads no clock, starts no goroutine and takes no lock: its
// user serializes all calls of its methods.
//
// Header blocks are encoded and decoded by golang.org/x/net/http2/hpack; all else is here.
package http2

import (
	"encoding/binary"
	"errors"
	"math"

	"golang.org/x/net/http2/hpack"
)

// Field is a field of a header or trailer. Names are in lower case; Sensitive ones enter no table.
type Field = hpack.HeaderField

// Bounds of a connection.
const (
	// Soft is how much may be queued to be written before messages wait.
	Soft = 64 << 10

	// hard is how much may be queued with the answers to control frames: a peer that sends those must
	// read.
	hard = 256 << 10

	// calm is how many frames a peer may send that further no message, beyond those that Calm and the
	// progress of its messages allow.
	calm = 1000

	// perFrame is how many bytes of messages allow one more such frame, and how many bytes of what is
	// not used count as one.
	perFrame = 1 << 10

	// hasty is how much time, as Calm counts it, a request lasts at least that its client cancels and
	// that counts as one nevertheless.
	hasty = 2
)

// Config says what this side allows its peer.
type Config struct {
	MaxStreams uint32 // requests at the same time; a client allows none
	MaxHeader  uint32 // bytes of a header or trailer, each field with 32 more (RFC 9113, section 6.5.2)
	Window     uint32 // bytes of a message that may arrive before they are consumed; 64 KiB - 1 to 2 GiB - 1
	ConnWindow uint32 // the same, of all messages
}

// Kind is what an event tells.
type Kind uint8

// Kinds of events.
const (
	// Headed is a message that begins, with Block: a request at a server, a response at a client.
	Headed Kind = iota
	// Body is a part of a message's body.
	Body
	// Trailed is the trailer of a message, which ends it.
	Trailed
	// Reset is the end of a stream before its messages have ended; Code says why.
	Reset
	// Writable is a stream on which Data can send again.
	Writable
	// Sent is a stream whose last part Finish could not send at once, and that has been sent now.
	Sent
	// Acked is the answer to Ping.
	Acked
	// Away is a peer that takes no further streams; Code says why. Streams that it has not
	// processed get a Reset with RefusedStream.
	Away
)

// Event is something that the peer has done. Data is a part of what was given to Receive.
type Event struct {
	Kind   Kind
	End    bool // the message ends
	Code   Code
	Stream *Stream
	Block  *Block
	Data   []byte
}

// Machine is the state of a connection. Use [NewServer] or [NewClient].
type Machine struct {
	client   bool
	greeted  bool // the peer's preface has come
	settled  bool // the peer's first settings have come
	leaving  bool // GoAway has been sent with the last stream
	warned   bool // Leave has been called
	away     bool // the peer has sent GOAWAY
	cfg      Config
	err      error
	streams  map[uint32]*Stream
	blocked  []*Stream // those that wait for a window or for room, in their order
	live     int       // streams of the peer that have not ended
	undone   int       // streams of the peer that have ended, and that this side works on nevertheless
	opened   int       // streams of this side that have not ended
	highest  uint32    // the peer's latest stream
	next     uint32    // a client's next stream
	lastSent uint32    // the last stream in the GOAWAY that was sent

	send      int64    // the connection's window for what this side sends
	recv      int64    // and for what it receives
	credit    uint32   // consumed bytes for which no WINDOW_UPDATE was sent
	resets    []uint32 // streams that this side has reset lately, at most keptResets; nil for none
	nextReset int      // where the next is noted

	calm       int   // frames without a purpose that are allowed
	time       int   // that has passed, as Calm was told
	progress   int   // bytes of messages since calm was increased
	peerFrame  int   // the largest frame that the peer takes
	peerWindow int64 // the first window of streams on which this side sends
	peerMost   int   // streams that the peer allows
	peerHeader int64 // bytes of the largest header that the peer takes

	out      []byte
	encoder  *hpack.Encoder
	repeated repeated
	reading  headerReader
	events   []Event
}

// NewServer returns the machine of a server's connection. Its settings are in Output.
func NewServer(cfg Config) *Machine {
	m := newMachine(cfg)
	m.out = m.appendSettings(m.out)
	return m
}

// NewClient returns the machine of a client's connection. Its preface and settings are in Output.
func NewClient(cfg Config) *Machine {
	cfg.MaxStreams = 0
	m := newMachine(cfg)
	m.client, m.greeted, m.next = true, true, 1
	m.out = m.appendSettings(append(m.out, Preface...))
	return m
}

func newMachine(cfg Config) *Machine {
	cfg.Window, cfg.ConnWindow = min(max(cfg.Window, defaultWindow), largestWindow), min(max(cfg.ConnWindow, defaultWindow), largestWindow)
	m := &Machine{
		cfg: cfg, streams: map[uint32]*Stream{}, send: defaultWindow, recv: int64(cfg.ConnWindow), calm: calm,
		peerFrame: minFrame, peerWindow: defaultWindow, peerMost: 100, peerHeader: math.MaxInt64, // until its settings come
	}
	m.encoder = hpack.NewEncoder((*output)(m))
	m.reading.init(int(cfg.MaxHeader))
	return m
}

// output appends header blocks to what is to be written.
type output Machine

func (o *output) Write(b []byte) (int, error) {
	o.out = append(o.out, b...)
	return len(b), nil
}

func (m *Machine) appendSettings(b []byte) []byte {
	const settings = 3
	b = appendHead(b, 6*settings, frameSettings, 0, 0)
	if m.client {
		b = appendSetting(b, settingPush, 0)
	} else {
		b = appendSetting(b, settingMaxStreams, m.cfg.MaxStreams)
	}
	b = appendSetting(b, settingWindow, m.cfg.Window)
	b = appendSetting(b, settingMaxHeader, m.cfg.MaxHeader)
	if more := m.cfg.ConnWindow - defaultWindow; more > 0 {
		b = appendWord(b, frameWindowUpdate, 0, more)
	}
	return b
}

// Output returns what is to be written next. It is valid until Take.
func (m *Machine) Output() []byte { return m.out }

// Take returns what is to be written, and gives the machine another buffer for what follows.
func (m *Machine) Take(spare []byte) []byte {
	b := m.out
	m.out = spare[:0]
	return b
}

// Lend gives the machine a buffer for what follows, and reports whether it has taken it: not if it has
// another.
func (m *Machine) Lend(spare []byte) bool {
	if cap(m.out) > 0 {
		return false
	}
	m.out = spare[:0]
	return true
}

// Receive handles the complete frames at the beginning of b. It returns how many bytes those are, and
// what they mean. Both are valid until the next Receive, and so must b be. After an error the
// connection has ended: what is in Output tells the peer, and is the last to be written.
func (m *Machine) Receive(b []byte) (n int, events []Event, err error) {
	m.events = m.events[:0]
	if m.err != nil {
		return 0, nil, m.err
	}
	if !m.greeted {
		switch k := min(len(b), len(Preface)); {
		case string(b[:k]) != Preface[:k]:
			return 0, nil, m.fail(fatal(ProtocolError, "this is not the preface of HTTP/2"))
		case k < len(Preface):
			return 0, nil, nil
		}
		m.greeted, n = true, len(Preface)
	}
	for {
		f, ok, err := parse(b[n:])
		if err == nil && ok {
			n += headLen + f.length
			err = m.receive(&f)
		}
		switch {
		case err != nil:
			return n, m.events, m.fail(err)
		case !ok:
			m.pump()
			return n, m.events, nil
		}
	}
}

// Settled reports whether the peer's first settings have come.
func (m *Machine) Settled() bool { return m.settled }

// Midway reports whether the peer has begun a preface or a header that it must finish; a frame that
// has begun is the rest that Receive has not used.
func (m *Machine) Midway() bool { return !m.settled || m.reading.stream != 0 }

// fail ends the connection with an error of the peer.
func (m *Machine) fail(err error) error {
	var e *ConnError
	if !errors.As(err, &e) {
		e = &ConnError{InternalError, err.Error()}
	}
	m.err = e
	m.out = appendGoAway(m.out, m.last(), e.Code, e.Why)
	return e
}

// last returns the last stream that is processed.
func (m *Machine) last() uint32 {
	if m.leaving {
		return m.lastSent
	}
	return m.highest
}

// inTurn checks that a frame may come now.
func (m *Machine) inTurn(f *frame) error {
	switch {
	case !m.settled && f.kind != frameSettings:
		return fatal(ProtocolError, "the first frame must be SETTINGS")
	case m.reading.stream != 0 && (f.kind != frameContinuation || f.stream != m.reading.stream):
		return fatal(ProtocolError, "a header must be continued by the next frame")
	case len(m.out) > hard:
		return fatal(EnhanceYourCalm, "the peer does not read what its frames make this side send")
	}
	return nil
}

// receive handles one frame.
func (m *Machine) receive(f *frame) error {
	if err := m.inTurn(f); err != nil {
		return err
	}
	switch f.kind {
	case frameData:
		return m.onData(f)
	case frameHeaders:
		return m.onHeaders(f)
	case frameContinuation:
		return m.onContinuation(f)
	case frameWindowUpdate:
		return m.onWindowUpdate(f)
	case frameReset:
		return m.onReset(f)
	case frameSettings:
		return m.onSettings(f)
	case framePing:
		return m.onPing(f)
	case frameGoAway:
		return m.onGoAway(f)
	case framePriority:
		return m.onPriority(f)
	case framePushPromise:
		return fatal(ProtocolError, "a push, which this side does not take")
	}
	return m.spend(1 + f.length/perFrame) // unknown frames are ignored: RFC 9113, section 5.5
}

// spend allows n frames that further no message, or fails: without a bound they would cost a peer
// less than this side. What furthers messages allows more (see earn), and so does time (see Calm).
func (m *Machine) spend(n int) error {
	if m.calm -= n; m.calm < 0 {
		return fatal(EnhanceYourCalm, "more than %d frames that further no message", calm)
	}
	return nil
}

// earn notes that bytes of messages have come or gone.
func (m *Machine) earn(bytes int) {
	if m.progress += bytes; m.progress >= perFrame {
		m.allow(m.progress / perFrame)
		m.progress %= perFrame
	}
}

// Calm allows the peer n more frames that further no message, for the time that has passed. Its user
// decides how much that is for one.
func (m *Machine) Calm(n int) {
	m.time += n
	m.allow(n)
}

// allow allows the peer n more frames that further no message.
func (m *Machine) allow(n int) { m.calm = min(m.calm+n, calm) }

func (m *Machine) onSettings(f *frame) error {
	switch {
	case f.stream != 0:
		return fatal(ProtocolError, "SETTINGS of a stream")
	case f.has(flagAck) && len(f.payload) > 0, len(f.payload)%6 != 0:
		return fatal(FrameSizeError, "SETTINGS of %d bytes", len(f.payload))
	case f.has(flagAck) && !m.settled:
		return fatal(ProtocolError, "the first SETTINGS are an acknowledgement")
	case f.has(flagAck):
		return m.spend(1)
	}
	if m.settled {
		if err := m.spend(1 + len(f.payload)/6); err != nil {
			return err
		}
	} else {
		m.peerMost = largestID
	}
	m.settled = true
	for b := f.payload; len(b) > 0; b = b[6:] {
		if err := m.set(binary.BigEndian.Uint16(b), binary.BigEndian.Uint32(b[2:])); err != nil {
			return err
		}
	}
	m.out = appendHead(m.out, 0, frameSettings, flagAck, 0)
	return nil
}

// set applies a setting of the peer; unknown ones are ignored.
func (m *Machine) set(id uint16, value uint32) error {
	switch id {
	case settingTableSize:
		m.encoder.SetMaxDynamicTableSize(min(value, tableSize))
		m.repeated.forget() // the next block begins with the new size
	case settingPush:
		if value > 1 || m.client && value != 0 {
			return fatal(ProtocolError, "ENABLE_PUSH is %d", value)
		}
	case settingMaxStreams:
		m.peerMost = int(min(value, largestID))
	case settingWindow:
		if value > largestWindow {
			return fatal(FlowControlError, "INITIAL_WINDOW_SIZE is %d", value)
		}
		more := int64(value) - m.peerWindow
		m.peerWindow = int64(value)
		for _, st := range m.streams {
			if st.window += more; st.window > largestWindow {
				return fatal(FlowControlError, "INITIAL_WINDOW_SIZE makes a window larger than 2 GiB")
			}
		}
	case settingMaxHeader:
		m.peerHeader = int64(value)
	case settingMaxFrame:
		if value < minFrame || value > largestFrame {
			return fatal(ProtocolError, "MAX_FRAME_SIZE is %d", value)
		}
		m.peerFrame = minFrame // larger ones would only keep other streams waiting
	}
	return nil
}

func (m *Machine) onPing(f *frame) error {
	switch {
	case len(f.payload) != 8:
		return fatal(FrameSizeError, "PING of %d bytes", len(f.payload))
	case f.stream != 0:
		return fatal(ProtocolError, "PING of a stream")
	case f.has(flagAck):
		m.events = append(m.events, Event{Kind: Acked, Data: f.payload})
		return m.spend(1)
	}
	m.out = append(appendHead(m.out, 8, framePing, flagAck, 0), f.payload...)
	return m.spend(1)
}

// Ping asks the peer to answer, with 8 bytes that it sends back.
func (m *Machine) Ping(data [8]byte) {
	if m.err == nil {
		m.out = append(appendHead(m.out, 8, framePing, 0, 0), data[:]...)
		m.allow(1) // for the answer
	}
}

func (m *Machine) onPriority(f *frame) error {
	if f.stream == 0 {
		return fatal(ProtocolError, "PRIORITY without a stream")
	}
	if err := m.spend(1); err != nil || len(f.payload) == 5 && !dependsOnItself(f) {
		return err // priorities are ignored: RFC 9113, section 5.3.2
	}
	code := ProtocolError
	if len(f.payload) != 5 {
		code = FrameSizeError
	}
	if st := m.streams[f.stream]; st != nil {
		m.end(st, code)
		return nil
	}
	m.refuse(f.stream, code)
	return nil
}

// dependsOnItself looks at a payload that begins with a priority.
func dependsOnItself(f *frame) bool {
	return binary.BigEndian.Uint32(f.payload)&largestID == f.stream
}

func (m *Machine) onGoAway(f *frame) error {
	switch {
	case f.stream != 0:
		return fatal(ProtocolError, "GOAWAY of a stream")
	case len(f.payload) < 8:
		return fatal(FrameSizeError, "GOAWAY of %d bytes", len(f.payload))
	}
	if err := m.spend(1); err != nil {
		return err
	}
	m.away = true
	last := binary.BigEndian.Uint32(f.payload) & largestID
	m.events = append(m.events, Event{Kind: Away, Code: Code(binary.BigEndian.Uint32(f.payload[4:])), Data: f.payload[8:]})
	if m.client {
		for id, st := range m.streams {
			if id > last {
				m.drop(st, RefusedStream)
			}
		}
	}
	return nil
}

// Leave tells a client that no further requests should be sent; those that are on their way are
// still taken. Refuse follows when they have come.
func (m *Machine) Leave() {
	if m.err == nil && !m.warned {
		m.warned = true
		m.out = appendGoAway(m.out, largestID, NoError, "")
	}
}

// Refuse tells the peer that its streams that come from now on are not processed.
func (m *Machine) Refuse(code Code, why string) {
	if m.err == nil && (!m.leaving || code != NoError) {
		m.lastSent = m.last()
		m.warned, m.leaving = true, true
		m.out = appendGoAway(m.out, m.lastSent, code, why)
	}
}

// Each calls f for every stream that has not ended.
func (m *Machine) Each(f func(*Stream)) {
	for _, st := range m.streams {
		f(st)
	}
}

// Streams returns how many streams have not ended.
func (m *Machine) Streams() int { return len(m.streams) }
