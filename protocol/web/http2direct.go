package web

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
)

// directMessages are the messages of a call over an [http2Conn]: five bytes with the length come before
// each, as gRPC, gRPC-Web and Connect's streams have them. connect reads the header of the request and
// ends the response, and has what is not usual: a message that is compressed, too large, or waits for
// memory. All others go between the stream and the call's codec without connect, which would copy them
// several times.
type directMessages struct {
	messageConn // connect's

	x     *exchange
	s     *http2Stream
	w     *http2Response
	plain bool // the header has been sent, and messages of the response are not compressed

	memory *buffer.Buffer // of the message that was received last; nil when it was decoded
}

// own returns the stream of a request that has come by an [http2Conn], and whose messages are its body
// as it is; else nil.
func (x *exchange) own() *http2Response {
	if resp, ok := x.w.(*response); ok && x.plain == nil && x.route == nil {
		w, _ := resp.ResponseWriter.(*http2Response)
		return w
	}
	return nil
}

// direct returns the messages of a call that connect has begun as stream.
func (x *exchange) newDirect(stream messageConn) messageConn {
	w := x.own()
	if w == nil {
		return stream
	}
	x.direct = &directMessages{messageConn: stream, x: x, s: w.s, w: w}
	return x.direct
}

// Receive reads the next message.
func (f *directMessages) Receive(m any) error {
	size, ok, err := f.next()
	if !ok {
		return f.messageConn.Receive(m)
	} else if err != nil {
		return err
	}
	f.memory = bufferFor(size)
	f.memory.B = slices.Grow(f.memory.B, size)[:size]
	m.(*message).b = f.memory.B //nolint:forcetypeassert // the exchange passes nothing else
	return f.read(f.memory.B)
}

// bufferFor returns an empty buffer for a message of about this size.
func bufferFor(size int) *buffer.Buffer {
	if size > buffer.MaxPooled {
		return buffer.GetOut()
	}
	return buffer.Get()
}

// decoded gives the memory of the message that was received last back.
func (f *directMessages) decoded() {
	if f != nil {
		f.memory.Put()
		f.memory = nil
	}
}

// next waits for the five bytes of the next message, and takes them if there is memory for the message.
// ok is false if connect has to read it, or to say why there is none.
func (f *directMessages) next() (size int, ok bool, err error) {
	s, h := f.s, f.s.h
	h.machine.Lock()
	defer h.machine.Unlock()
	for s.body.length < envelopeLen {
		switch {
		case s.readBy.passed():
			return 0, true, f.overdue()
		case s.body.length > 0, s.closed, s.ended, s.gone != nil, s.waits:
			return 0, false, nil
		}
		s.changed.Wait()
	}
	var head [envelopeLen]byte
	s.body.peek(head[:])
	most, n := int64(f.x.method.MaxMessage), int64(binary.BigEndian.Uint32(head[1:]))
	if head[0] != 0 || n > most || n > step && !f.x.memory.TryReserve(n) {
		return 0, false, nil
	}
	s.body.read(head[:])
	h.m.Consumed(s.st, envelopeLen)
	return int(n), true, nil
}

func (f *directMessages) overdue() error {
	return tandem.Errorf(tandem.DeadlineExceeded, "the request has not come on for %v: see WithStallTimeout", f.x.conn.StallTimeout())
}

// read reads a message into b, which the connection's reader fills as more of it comes. A message that
// has begun must come on as any request must; see arrivals.
func (f *directMessages) read(b []byte) error {
	s, h := f.s, f.s.h
	h.machine.Lock()
	n := s.body.read(b)
	h.m.Consumed(s.st, n)
	s.into = b[n:]
	write := len(h.m.Output()) > 0
	h.machine.Unlock()
	if write {
		h.flush()
	}
	if n == len(b) {
		return nil
	}
	if f.x.only {
		return f.await(len(b)) // the request has a limit as a whole
	}
	f.limit(f.x.conn.StallTimeout())
	err := f.await(len(b))
	if err == nil {
		f.limit(0)
	}
	return err
}

// limit limits the time for what comes; 0 is no limit.
func (f *directMessages) limit(t time.Duration) {
	var at time.Time
	if t > 0 {
		at = time.Now().Add(t)
	}
	_ = f.x.control.SetReadDeadline(at) // it can't fail over HTTP/2 of our own
}

// await waits until the connection's reader has filled the rest of the message.
func (f *directMessages) await(size int) error {
	s := f.s
	s.h.machine.Lock()
	defer s.h.machine.Unlock()
	defer func() { s.into = nil }()
	for len(s.into) > 0 {
		switch {
		case s.ended:
			return tandem.Errorf(tandem.Internal, "protocol error: promised %d bytes in enveloped message, got %d bytes: unexpected EOF", size, size-len(s.into))
		case s.closed, s.gone != nil:
			return tandem.Errorf(tandem.Canceled, "%w", errClientGone)
		case s.readBy.passed():
			return f.overdue()
		}
		s.changed.Wait()
	}
	return nil
}

// Send sends a message, or the header if m is nil.
func (f *directMessages) Send(m any) error {
	next, ok := m.(*message)
	if !ok || !f.plain {
		err := f.messageConn.Send(m)
		f.plain = !f.compresses()
		return err
	}
	binary.BigEndian.PutUint32(next.framed[1:], uint32(len(next.b))) //nolint:gosec // messages are smaller than 4 GiB
	return f.s.send(next.framed)
}

// frame encodes a message, with room for its length before it.
func (x *exchange) frame(v any) (*buffer.Buffer, error) {
	last := &x.gate.gateway.lastSize
	b := bufferFor(int(last.Load())) // if it is too small, that costs an allocation
	framed, err := appendEncoded(x.codec, append(b.B, make([]byte, envelopeLen)...), v)
	if err != nil {
		b.Put()
		return nil, err
	}
	b.B = framed
	last.Store(int64(len(framed)))
	return b, nil
}

// sendDirect encodes and sends a message.
func (x *exchange) sendDirect(v any) error {
	b, err := x.frame(v)
	if err != nil {
		return err
	}
	defer b.Put()
	return x.send(&message{b: b.B[envelopeLen:], framed: b.B})
}

// compresses reports whether messages of the response may be compressed, as its header says.
func (f *directMessages) compresses() bool {
	h := f.w.header
	return h.Get("Grpc-Encoding") != "" || h.Get("Connect-Content-Encoding") != ""
}
