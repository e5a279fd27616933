package http2

import "slices"

// Stream is a request and its response. Its fields but Owner are the machine's.
type Stream struct {
	ID    uint32
	Owner any // of the machine's user

	begun     bool // its first header has come
	sentHead  bool
	recvEnded bool
	sendEnded bool // all has been sent
	reset     bool // it ended before its messages did
	done      bool // Done was called
	undone    bool // it counts in Machine.undone
	wasted    bool // the work for it does not allow further frames
	began     int  // when, as Machine.time counts
	queued    bool // it is in Machine.blocked
	finishing bool // Finish or CloseSend was called: unsent and trailer are the last
	window    int64
	recv      int64  // bytes that may still come
	credit    uint32 // consumed bytes for which no WINDOW_UPDATE was sent
	left      int64  // bytes of the body that must still come; negative if no length was declared
	unsent    []byte
	trailer   []Field
	code      Code // why it was reset
}

// Gone returns why nothing can be sent on the stream any more, or nil.
func (st *Stream) Gone() error {
	if st.reset {
		return &GoneError{st.code}
	}
	return nil
}

// Waits reports whether an event will tell that Data can send again.
func (st *Stream) Waits() bool { return st.queued && !st.reset }

// Sent reports whether all of this side's message has been sent, or the stream was reset.
func (st *Stream) Sent() bool { return st.sendEnded || st.reset }

// known reports whether a client has had this stream.
func (m *Machine) known(id uint32) bool { return id%2 == 1 && id < m.next }

// idle reports whether a stream has not begun.
func (m *Machine) idle(id uint32) bool {
	if m.client {
		return !m.known(id)
	}
	return id%2 == 0 || id > m.highest
}

// onBlock handles a header or trailer that is complete.
func (m *Machine) onBlock(id uint32, b *Block, end bool, bad string) error {
	st := m.streams[id]
	switch {
	case st == nil && !m.client && id > m.highest:
		return m.onRequest(id, b, end, bad)
	case st == nil: // it was reset
		b.Free()
		return m.spend(1)
	case st.recvEnded:
		b.Free()
		m.end(st, StreamClosed)
		return m.spend(1)
	case bad != "", st.begun && (!end || st.left > 0):
		b.Free()
		m.end(st, ProtocolError)
		return m.spend(1)
	case st.begun:
		m.events = append(m.events, Event{Kind: Trailed, Stream: st, Block: b, End: true})
		m.receivedAll(st)
		return nil
	case b.Status < 200: // an interim response, which a final one follows
		b.Free()
		if end || b.Status == 101 {
			m.end(st, ProtocolError)
		}
		return m.spend(1)
	}
	st.begun = true
	m.headed(st, b, end)
	return nil
}

// headed tells that a message begins.
func (m *Machine) headed(st *Stream, b *Block, end bool) {
	if st.left = b.Length; end {
		st.left = 0
	}
	m.events = append(m.events, Event{Kind: Headed, Stream: st, Block: b, End: end})
	if end {
		m.receivedAll(st)
	}
}

// onRequest handles the header of a new stream.
func (m *Machine) onRequest(id uint32, b *Block, end bool, bad string) error {
	m.highest = id
	switch {
	case m.leaving: // RFC 9113, section 6.8: what comes after GOAWAY is ignored
		b.Free()
		return m.spend(1)
	case bad != "" || end && b.Length > 0:
		b.Free()
		m.refuse(id, ProtocolError)
		return m.spend(1)
	case m.live+m.undone >= int(m.cfg.MaxStreams):
		b.Free()
		m.refuse(id, RefusedStream)
		return m.spend(1)
	}
	st := &Stream{ID: id, begun: true, window: m.peerWindow, recv: int64(m.cfg.Window), began: m.time, wasted: b.TooLarge}
	m.streams[id] = st
	m.live++
	m.headed(st, b, end)
	return nil
}

// Open begins a stream of a client. It returns nil if the server takes no more streams: none at all,
// as Away says, or none until others have ended, as Full says.
func (m *Machine) Open(fields []Field, end bool) *Stream {
	if !m.client || m.Full() || m.Closed() {
		return nil
	}
	st := &Stream{ID: m.next, window: m.peerWindow, recv: int64(m.cfg.Window), left: -1}
	m.next += 2
	m.opened++
	m.streams[st.ID] = st
	st.sentHead = true
	m.appendBlock(st.ID, fields, end)
	if end {
		m.sentAll(st)
	}
	return st
}

// Fits reports whether the peer takes a header of this size, as far as its settings say.
func (m *Machine) Fits(fields []Field) bool {
	size := int64(0)
	for i := range fields {
		size += int64(len(fields[i].Name) + len(fields[i].Value) + fieldOverhead)
	}
	return size <= m.peerHeader
}

// Full reports whether a client has as many streams as its server allows.
func (m *Machine) Full() bool { return m.Vacant() <= 0 }

// Vacant returns how many more streams a client's server allows; it may be negative.
func (m *Machine) Vacant() int { return m.peerMost - m.opened }

// Closed reports whether a client can't open streams any more.
func (m *Machine) Closed() bool { return m.err != nil || m.away || m.next > largestID }

func (m *Machine) onData(f *frame) error {
	if f.stream == 0 || m.idle(f.stream) {
		return fatal(ProtocolError, "DATA of stream %d, which has not begun", f.stream)
	}
	if err := f.unpad(); err != nil {
		return err
	}
	if m.recv -= int64(f.length); m.recv < 0 {
		return fatal(FlowControlError, "more data than the connection's window")
	}
	st := m.streams[f.stream]
	if st == nil || st.recvEnded {
		return m.dataOfEnded(st, f)
	}
	if code := st.take(f); code != NoError {
		m.consume(f.length)
		m.end(st, code)
		return m.spend(1)
	}
	m.Consumed(st, f.length-len(f.payload)) // padding
	end := f.has(flagEndStream)
	if len(f.payload) == 0 && !end {
		return m.spend(1)
	}
	m.earn(len(f.payload))
	m.events = append(m.events, Event{Kind: Body, Stream: st, Data: f.payload, End: end})
	if end {
		m.receivedAll(st)
	}
	return nil
}

// take notes data that has come. It returns why the stream must be reset for it, if it must.
func (st *Stream) take(f *frame) Code {
	n := int64(len(f.payload))
	st.recv -= int64(f.length)
	switch {
	case st.recv < 0:
		return FlowControlError
	case !st.begun, st.left >= 0 && (n > st.left || f.has(flagEndStream) && n < st.left):
		return ProtocolError
	case st.left >= 0:
		st.left -= n
	}
	return NoError
}

// dataOfEnded handles data of a stream whose message has ended, or that has ended itself.
func (m *Machine) dataOfEnded(st *Stream, f *frame) error {
	m.consume(f.length)
	switch {
	case st != nil:
		m.end(st, StreamClosed)
	case !m.wasReset(f.stream) && !m.leaving:
		m.refuse(f.stream, StreamClosed)
	}
	return m.spend(1)
}

// Consumed says that n bytes of the stream's body need no memory any more, so that as many others
// may come.
func (m *Machine) Consumed(st *Stream, n int) {
	m.consume(n)
	if st.recvEnded || st.reset || m.err != nil {
		return
	}
	if st.credit += uint32(n); st.credit >= m.cfg.Window/2 { //nolint:gosec // it is less than what has come
		m.out = appendWord(m.out, frameWindowUpdate, st.ID, st.credit)
		st.recv += int64(st.credit)
		st.credit = 0
	}
}

// consume returns bytes to the connection's window.
func (m *Machine) consume(n int) {
	if m.credit += uint32(n); m.credit >= m.cfg.ConnWindow/2 && m.err == nil { //nolint:gosec // it is less than what has come
		m.out = appendWord(m.out, frameWindowUpdate, 0, m.credit)
		m.recv += int64(m.credit)
		m.credit = 0
	}
}

func (m *Machine) onWindowUpdate(f *frame) error {
	switch {
	case len(f.payload) != 4:
		return fatal(FrameSizeError, "WINDOW_UPDATE of %d bytes", len(f.payload))
	case f.stream != 0 && m.idle(f.stream):
		return fatal(ProtocolError, "WINDOW_UPDATE of stream %d, which has not begun", f.stream)
	}
	if err := m.spend(1); err != nil {
		return err
	}
	more := int64(f.payload[0]&0x7f)<<24 | int64(f.payload[1])<<16 | int64(f.payload[2])<<8 | int64(f.payload[3])
	if f.stream == 0 {
		switch m.send += more; {
		case more == 0:
			return fatal(ProtocolError, "WINDOW_UPDATE by 0")
		case m.send > largestWindow:
			return fatal(FlowControlError, "a window larger than 2 GiB")
		}
		return nil
	}
	st := m.streams[f.stream]
	if st == nil {
		return nil
	}
	switch st.window += more; {
	case more == 0:
		m.end(st, ProtocolError)
	case st.window > largestWindow:
		m.end(st, FlowControlError)
	}
	return nil
}

func (m *Machine) onReset(f *frame) error {
	switch {
	case len(f.payload) != 4:
		return fatal(FrameSizeError, "RST_STREAM of %d bytes", len(f.payload))
	case f.stream == 0 || m.idle(f.stream):
		return fatal(ProtocolError, "RST_STREAM of stream %d, which has not begun", f.stream)
	}
	if st := m.streams[f.stream]; st != nil {
		code := Code(f.payload[0])<<24 | Code(f.payload[1])<<16 | Code(f.payload[2])<<8 | Code(f.payload[3])
		st.wasted = m.time-st.began < hasty
		m.drop(st, code)
	}
	return m.spend(1)
}

// end resets a stream because of what its peer has done, and tells this side.
func (m *Machine) end(st *Stream, code Code) {
	st.wasted = true
	m.reset(st, code)
	m.events = append(m.events, Event{Kind: Reset, Stream: st, Code: code})
}

// drop ends a stream that the peer has reset or will not process, and tells this side.
func (m *Machine) drop(st *Stream, code Code) {
	m.close(st, code)
	m.events = append(m.events, Event{Kind: Reset, Stream: st, Code: code})
}

// Cancel ends a stream before its messages have ended.
func (m *Machine) Cancel(st *Stream, code Code) {
	if m.streams[st.ID] == st && m.err == nil {
		m.reset(st, code)
	}
}

func (m *Machine) reset(st *Stream, code Code) {
	m.refuse(st.ID, code)
	m.close(st, code)
}

// keptResets is of how many streams this side knows that it has reset them.
const keptResets = 64

// refuse resets a stream that may not be in the table.
func (m *Machine) refuse(id uint32, code Code) {
	m.out = appendWord(m.out, frameReset, id, uint32(code))
	if m.resets == nil {
		m.resets = make([]uint32, keptResets)
	}
	m.resets[m.nextReset] = id
	m.nextReset = (m.nextReset + 1) % len(m.resets)
}

// wasReset reports whether this side has reset a stream lately: what the peer has sent before it
// knew is ignored.
func (m *Machine) wasReset(id uint32) bool { return slices.Contains(m.resets, id) }

func (m *Machine) close(st *Stream, code Code) {
	st.reset, st.code = true, code
	st.unsent, st.trailer = nil, nil
	m.over(st)
}

// receivedAll notes that the peer's message has ended.
func (m *Machine) receivedAll(st *Stream) {
	st.recvEnded = true
	if st.sendEnded {
		m.over(st)
	}
}

// sentAll notes that this side's message has ended.
func (m *Machine) sentAll(st *Stream) {
	st.sendEnded = true
	if st.recvEnded {
		m.over(st)
	}
}

// over removes a stream that has ended.
func (m *Machine) over(st *Stream) {
	delete(m.streams, st.ID)
	if m.client {
		m.opened--
		return
	}
	m.live--
	if st.reset && !st.done {
		st.undone = true
		m.undone++
	}
}

// Done says that a server has ended its work for a stream. Until then a stream counts, also if it was
// reset: a client that resets what it has begun gets no more work done at the same time than others.
func (m *Machine) Done(st *Stream) {
	if st.done || m.client {
		return
	}
	st.done = true
	if !st.wasted {
		m.allow(1)
	}
	if st.undone {
		m.undone--
	}
}
