package http2

// Header sends the first header of a response; end says that nothing follows.
func (m *Machine) Header(st *Stream, fields []Field, end bool) {
	if st.reset || st.sentHead || m.err != nil {
		return
	}
	st.sentHead = true
	m.appendBlock(st.ID, fields, end)
	if end {
		m.sentAll(st)
	}
}

// Interim sends a response with a status of 1xx, which another follows.
func (m *Machine) Interim(st *Stream, fields []Field) {
	if !st.reset && !st.sentHead && m.err == nil {
		m.appendBlock(st.ID, fields, false)
	}
}

// Data sends a part of a body, or as much of it as the peer's windows and [Soft] allow, and returns
// how much that was. If it was not all, an event tells when the next can be sent.
func (m *Machine) Data(st *Stream, b []byte) (n int) {
	if st.reset || st.sendEnded || st.finishing || m.err != nil {
		return 0
	}
	if !st.queued {
		n = m.write(st, b)
	}
	if n < len(b) {
		m.wait(st)
	}
	return n
}

// Finish sends the last part of a body, and then the trailer, if there is one. The machine keeps both
// until the peer's windows allow to send them.
func (m *Machine) Finish(st *Stream, b []byte, trailer []Field) {
	if st.reset || st.sendEnded || st.finishing || m.err != nil {
		return
	}
	st.finishing, st.unsent, st.trailer = true, b, trailer
	if st.queued || !m.finish(st) {
		m.wait(st)
	}
}

// finish sends what it can of what Finish was given, and reports whether that was all.
func (m *Machine) finish(st *Stream) bool {
	last := len(st.trailer) == 0
	for {
		n := min(len(st.unsent), m.room(st))
		end := last && n == len(st.unsent)
		if n > 0 || end {
			m.appendData(st, st.unsent[:n], end)
			st.unsent = st.unsent[n:]
		}
		switch {
		case len(st.unsent) == 0:
			if !last {
				m.appendBlock(st.ID, st.trailer, true)
			}
			st.unsent, st.trailer = nil, nil
			m.sentAll(st)
			return true
		case n == 0:
			return false
		}
	}
}

// write sends as much as it can.
func (m *Machine) write(st *Stream, b []byte) (n int) {
	for n < len(b) {
		k := min(len(b)-n, m.room(st))
		if k == 0 {
			break
		}
		m.appendData(st, b[n:n+k], false)
		n += k
	}
	return n
}

// room returns how many bytes the next frame of a body may have.
func (m *Machine) room(st *Stream) int {
	if len(m.out) >= Soft {
		return 0
	}
	return max(0, min(m.peerFrame, int(min(st.window, m.send))))
}

func (m *Machine) appendData(st *Stream, b []byte, end bool) {
	flags := byte(0)
	if end {
		flags = flagEndStream
	}
	m.out = append(appendHead(m.out, len(b), frameData, flags, st.ID), b...)
	st.window -= int64(len(b))
	m.send -= int64(len(b))
	m.earn(len(b))
}

// wait queues a stream that has more to send.
func (m *Machine) wait(st *Stream) {
	if !st.queued {
		st.queued = true
		m.blocked = append(m.blocked, st)
	}
}

// Pump sends what has waited until there was room in Output, and returns the events that tell so. It
// is to be called when Output has been written.
func (m *Machine) Pump() []Event {
	m.events = m.events[:0]
	if m.err == nil {
		m.pump()
	}
	return m.events
}

// pump sends of the streams that wait, a frame of each at a time.
func (m *Machine) pump() {
	if len(m.blocked) == 0 {
		return
	}
	for progress := true; progress; {
		progress = false
		waiting := m.blocked
		m.blocked = m.blocked[:0]
		for _, st := range waiting {
			switch room := m.room(st); {
			case st.reset:
				st.queued = false
			case room == 0 && (len(st.unsent) > 0 || !st.finishing):
				m.blocked = append(m.blocked, st)
			case !st.finishing:
				st.queued = false
				m.events = append(m.events, Event{Kind: Writable, Stream: st})
			default:
				m.pumpOne(st, room)
				progress = true
			}
		}
		clear(waiting[len(m.blocked):])
	}
}

// pumpOne sends a frame of what Finish was given.
func (m *Machine) pumpOne(st *Stream, room int) {
	if len(st.unsent) > room {
		m.appendData(st, st.unsent[:room], false)
		st.unsent = st.unsent[room:]
		m.blocked = append(m.blocked, st)
		return
	}
	st.queued = false
	if m.finish(st) {
		m.events = append(m.events, Event{Kind: Sent, Stream: st})
	}
}
