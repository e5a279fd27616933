package machine

import (
	"fmt"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// Request is what the machine knows of a call that the peer makes, as long as it is open. The
// session embeds it.
type Request struct {
	ID   wire.Stream // 0 for a small one-way call
	Name string      // of the method

	OneWay     bool  // no response is sent
	Compressed bool  // Message is compressed
	Codec      uint8 // the number of the codec; NoCodec if the request is refused before that is known
	Compressor uint8 // the number of the compressor, from 1; 0 for none
	canceled   bool  // the caller has canceled the call
	accepted   bool  // the stream's first response was sent

	Arrived int64 // ns; when the request arrived at this host, as far as is known
	Expires int64 // ns; the deadline, 0 for none

	Pairs   *wire.Pairs    // memory of metadata, which may be kept for another request; nil for none
	Message []byte         // of a request in one piece: part of the frame, and valid as long as that
	Owned   *buffer.Buffer // holds the message if it came in several pieces; else nil
	Reply   *buffer.Buffer // the response's message, encoded; set by the session

	arriving *assembly // while the request arrives
	rest     *bulk     // the part of the response that is not sent yet
	stream   *Stream
}

// Incoming is what a request frame brings. The caller of Receive sets Request, which must be empty
// but for the memory of Pairs and Reply; the rest is what matters only as the call begins.
type Incoming struct {
	Request *Request // not kept unless the event refers to it

	Method   *Method       // nil if there is none of that name
	Refusal  *tandem.Error // only interceptors may see the call, which ends with this; nil to run the method
	Metadata tandem.Metadata
	Number   int32 // the number that the peer has given the name; negative if it has not
	Attempt  uint32
	Kind     tandem.Kind
}

// IsArriving reports whether blocks of the request are still to come.
func (r *Request) IsArriving() bool { return r.arriving != nil }

// Have returns how many bytes of a request have arrived that is still arriving.
func (r *Request) Have() int { return r.arriving.have }

// AwaitsGrant reports whether the rest of a request that is still arriving may not arrive before
// [Machine.Grant].
func (r *Request) AwaitsGrant() bool { return !r.arriving.granted }

// Whole returns how many bytes a request needs that is still arriving: twice its size if it is put
// together from pieces.
func (r *Request) Whole() int64 { return r.arriving.whole() }

func (m *Machine) serving(id wire.Stream) *Request {
	if i := int(id.Index()); i < len(m.served) {
		if in := m.served[i]; in != nil && in.ID == id {
			return in
		}
	}
	return nil
}

// onRequest opens a call of the peer. Names and the count of requests advance
// even when the call is refused: the peer counts them too.
func (m *Machine) onRequest(h wire.Header, payload []byte, now int64, c *Incoming) (Event, error) {
	in := c.Request
	var r wire.Request
	block, err := wire.ParseRequest(payload, &r)
	if err != nil {
		return Event{}, err
	}
	if err := m.resolve(c, r.Name); err != nil {
		return Event{}, err
	}
	if m.draining {
		return Event{}, nil // the goaway frame told the peer that this call won't run
	}
	if m.QueuedBytes() > 2*WriteHard { // the peer does not even read refusals
		return Event{}, fmt.Errorf("%w: %d bytes of responses are queued", ErrFlood, m.QueuedBytes())
	}
	m.accepted++
	if len(m.incoming.list) > 0 || h.Flags&wire.FlagEnd == 0 {
		m.incoming.countArrived(len(payload), now)
	}
	if err := m.reserve(h); err != nil {
		return Event{}, err
	}
	in.ID = h.Stream
	in.OneWay = h.Flags&wire.FlagOneWay != 0
	in.Compressed = h.Flags&wire.FlagCompressed != 0
	if e := m.fill(c, h, &r, now); e != nil {
		return m.refuseThroughInterceptors(c, h, e)
	}
	if e := m.check(c, h, len(block), &r); e != nil {
		if !m.hidesMethod(c, h, &r) {
			return m.refuseThroughInterceptors(c, h, e)
		}
		c.Refusal = e
	}
	if e := m.checkRoom(in, h); e != nil {
		m.refuse(in, h, e)
		return Event{}, nil
	}
	m.serve(in)
	if h.Flags&wire.FlagEnd != 0 {
		return m.startRun(in, block, nil), nil
	}
	in.arriving = &assembly{id: in.ID, answer: wire.FlagAnswer, buf: buffer.Get(), have: len(block), size: int(r.Size), in: in, granted: !m.Reserves} //nolint:gosec // checked
	in.arriving.buf.B = append(in.arriving.buf.B, block...)
	return Event{Kind: Arrives, Request: in}, m.startAssembly(in.arriving)
}

// reserve checks the stream number of a new request.
func (m *Machine) reserve(h wire.Header) error {
	if h.Flags&(wire.FlagOneWay|wire.FlagStream) == wire.FlagOneWay|wire.FlagStream {
		return violationf("request of a one-way stream")
	}
	if h.Stream == 0 {
		if h.Flags&(wire.FlagOneWay|wire.FlagEnd) != wire.FlagOneWay|wire.FlagEnd {
			return violationf("request without a stream number")
		}
		return nil
	}
	i := int(h.Stream.Index())
	if uint64(i) >= m.Own.MaxOpen { //nolint:gosec // not negative
		return violationf("stream index %d, limit %d", i, m.Own.MaxOpen)
	}
	if i < len(m.served) && m.served[i] != nil {
		return violationf("stream %#x opened while %#x is open", uint64(h.Stream), uint64(m.served[i].ID))
	}
	return nil
}

func (m *Machine) serve(in *Request) {
	if in.ID == 0 {
		return
	}
	i := int(in.ID.Index())
	for i >= len(m.served) {
		m.served = Extend(m.served, m.first[:], nil)
	}
	m.served[i] = in
}

// fill fills in what the request says about the call. Metadata and deadline come first: if another
// field is refused, interceptors may still see the call (see refuseThroughInterceptors).
func (m *Machine) fill(c *Incoming, h wire.Header, r *wire.Request, now int64) *tandem.Error {
	in := c.Request
	c.Attempt, in.Codec = r.Attempt, NoCodec
	switch {
	case in.OneWay:
		c.Kind = tandem.OneWay
	case h.Flags&wire.FlagStream != 0:
		c.Kind = tandem.Streaming
	}
	if c.Method == nil {
		return refused(tandem.Unimplemented, "no method %q here", in.Name)
	}
	timeout := r.Timeout
	if t := c.Method.Timeout; t > 0 && (timeout == 0 || t < timeout) {
		timeout = t
	}
	in.Arrived = now - m.age
	if timeout > 0 {
		in.Expires = max(1, in.Arrived+int64(timeout))
	}
	if len(r.Metadata) > 0 {
		var err error
		if c.Metadata, err = c.memory().Parse(r.Metadata); err != nil {
			return refused(tandem.InvalidArgument, "%v", err)
		}
	}
	return m.fillEncoding(in, r)
}

func (m *Machine) fillEncoding(in *Request, r *wire.Request) *tandem.Error {
	if int(r.Codec) >= len(m.Own.Codecs) {
		return refused(tandem.Unimplemented, "no codec number %d here", r.Codec)
	}
	in.Codec = r.Codec
	if r.Compressor > 0 {
		if int(r.Compressor) > len(m.Own.Compressors) {
			return refused(tandem.Unimplemented, "no compressor number %d here", r.Compressor)
		}
		in.Compressor = r.Compressor
	}
	if in.Compressed && in.Compressor == 0 {
		return refused(tandem.InvalidArgument, "compressed message without a compressor")
	}
	return nil
}

// memory returns the Pairs to parse the metadata into. They are reused if the method allows that.
func (c *Incoming) memory() *wire.Pairs {
	if !c.Method.Reuse {
		return new(wire.Pairs)
	}
	if c.Request.Pairs == nil {
		c.Request.Pairs = new(wire.Pairs)
	}
	return c.Request.Pairs
}

// check returns an error for a call that does not fit its method or a limit.
func (m *Machine) check(c *Incoming, h wire.Header, block int, r *wire.Request) *tandem.Error {
	size, limit := uint64(block), m.Own.MaxMessage //nolint:gosec // not negative
	if h.Flags&wire.FlagEnd == 0 {
		size = r.Size
	}
	name, target := c.Request.Name, c.Method
	if target.MaxMessage > 0 {
		limit = uint64(target.MaxMessage)
	}
	stream := h.Flags&wire.FlagStream != 0
	switch {
	case size > limit:
		return refused(tandem.ResourceExhausted, "message of %d bytes, %s takes at most %d: see the server's WithMaxMessage", size, name, limit)
	case stream != (target.Kind == tandem.Streaming) && !target.Absent:
		return refused(tandem.Unimplemented, "%s is %s", name, kindName(target.Kind))
	case stream && h.Flags&wire.FlagEnd == 0:
		return refused(tandem.InvalidArgument, "a stream's request carries no message")
	}
	return nil
}

// hidesMethod reports whether a large request that does not fit its method is received to its end,
// like one for a method that does not exist: an earlier response, before interceptors have
// authenticated the caller, would reveal that the method exists.
func (m *Machine) hidesMethod(c *Incoming, h wire.Header, r *wire.Request) bool {
	return c.Method.Guarded && h.Flags&(wire.FlagEnd|wire.FlagStream) == 0 && r.Size <= m.Own.MaxMessage
}

// refuseThroughInterceptors ends a call with the error e. Interceptors of a Guarded method, such as
// authentication, see the call first: a caller without credentials learns nothing about
// methods, codecs and limits.
func (m *Machine) refuseThroughInterceptors(c *Incoming, h wire.Header, e *tandem.Error) (Event, error) {
	in, t := c.Request, c.Method
	if t == nil || !t.Guarded || m.checkRoom(in, h) != nil {
		m.refuse(in, h, e)
		return Event{}, nil //nolint:nilerr // e is the response, and says more than checkRoom
	}
	c.Refusal = e
	if h.Flags&wire.FlagEnd == 0 { // its caller waits for credit, so it gets a response
		in.OneWay = false
	}
	m.serve(in)
	return m.startRun(in, nil, nil), nil
}

// checkRoom returns an error if the connection has no room for a call of the peer.
func (m *Machine) checkRoom(in *Request, h wire.Header) *tandem.Error {
	switch {
	case h.Flags&wire.FlagEnd == 0 && m.incoming.held > MaxHeld:
		return refused(tandem.ResourceExhausted, "too many large messages are arriving: %d bytes are held", m.incoming.held)
	case m.QueuedBytes() > WriteHard:
		return refused(tandem.ResourceExhausted, "the caller reads too slowly: %d bytes of responses are queued", m.QueuedBytes())
	case in.OneWay && m.running >= int(m.Own.MaxOpen): //nolint:gosec // bounded
		return refused(tandem.ResourceExhausted, "too many one-way calls are running")
	}
	return nil
}

func kindName(k tandem.Kind) string {
	if k == tandem.Streaming {
		return "a stream: open it with OpenStream"
	}
	return "not a stream: make it with Call"
}

func refused(code tandem.Code, format string, args ...any) *tandem.Error {
	return &tandem.Error{Code: code, Message: fmt.Sprintf(format, args...), NotExecuted: true}
}

// refuse answers a call that is not run. A large request's remaining blocks
// find no call and are dropped. A one-way call is answered only if it is large:
// without a response, its caller would wait for credit for ever.
func (m *Machine) refuse(in *Request, h wire.Header, e *tandem.Error) {
	if !in.OneWay || h.Flags&wire.FlagEnd == 0 {
		m.appendResponse(h.Stream, &wire.Response{Status: EncodeStatus(e)}, wire.FlagEnd|wire.FlagLast, nil)
	}
}

func (m *Machine) startRun(in *Request, message []byte, owned *buffer.Buffer) Event {
	in.arriving, in.Message, in.Owned = nil, message, owned
	if in.OneWay && in.ID != 0 {
		m.served[in.ID.Index()] = nil // the peer may use the slot again
	}
	m.running++
	return Event{Kind: Run, Request: in}
}

func (m *Machine) onCancel(id wire.Stream) Event {
	in := m.serving(id)
	if in == nil {
		return Event{}
	}
	in.canceled = true
	e := &tandem.Error{Code: tandem.Canceled, Message: "canceled by the caller"}
	switch {
	case in.arriving != nil:
		m.Drop(in, e)
		return Event{Kind: Dropped, Request: in}
	case in.rest != nil: // its response is being sent
		m.ring.remove(in.rest)
		in.rest.owner.Put()
		in.rest = nil
		m.served[id.Index()] = nil
		m.appendReset(id, e)
	default:
		if in.stream != nil {
			m.endRecv(in.stream, e)
		}
		return Event{Kind: Canceled, Request: in}
	}
	return Event{}
}

// Drop answers a request that has not arrived completely: with e, which it marks as
// not executed. Blocks that still arrive find no call and are dropped.
func (m *Machine) Drop(in *Request, e *tandem.Error) {
	m.dropAssembly(in.arriving)
	in.arriving.buf.Put()
	in.arriving = nil
	m.served[in.ID.Index()] = nil
	e.NotExecuted = true
	m.appendResponse(in.ID, &wire.Response{Status: EncodeStatus(e)}, wire.FlagEnd|wire.FlagLast, nil)
}

// Stale is a request that is to be dropped before it has arrived completely.
type Stale struct {
	Request *Request
	Err     *tandem.Error // why; nil if it has waited for memory for too long
}

// StaleRequests returns requests that are still arriving though their deadline has passed, that have
// waited too long for memory, or of which nothing more arrives. served is how many waits for memory
// were granted so far, to any connection.
func (m *Machine) StaleRequests(now int64, served uint64) (stale []Stale) {
	if len(m.incoming.list) == 0 {
		return nil
	}
	stalled := m.incoming.stalled(now, m.Stall)
	for _, a := range slices.Backward(m.incoming.list) {
		in := m.serving(a.id)
		if in == nil || in.arriving != a {
			continue
		}
		switch {
		case in.Expires != 0 && now >= in.Expires:
			stale = append(stale, Stale{in, refused(tandem.DeadlineExceeded, "the arguments of %s did not arrive before the deadline", in.Name)})
		case in.Expires == 0 && a.waitedTooLong(now, m.Stall, served):
			stale = append(stale, Stale{Request: in})
		case stalled:
			stale = append(stale, Stale{in, refused(tandem.DeadlineExceeded, "nothing more of the arguments of %s came within %v", in.Name, m.Stall)})
		}
	}
	return stale
}

// Grant lets the rest of a request arrive, for which memory is reserved now.
func (m *Machine) Grant(in *Request) {
	in.arriving.granted = true
	m.grant()
}

func (m *Machine) appendReset(id wire.Stream, e *tandem.Error) {
	st := EncodeStatus(e)
	b := m.buf()
	b.B = wire.AppendHeader(b.B, wire.Header{Length: len(st), Type: wire.TypeReset, Flags: wire.FlagAnswer, Stream: id})
	b.B = append(b.B, st...)
}

// appendResponse appends one response frame with a message that fits in it.
func (m *Machine) appendResponse(id wire.Stream, r *wire.Response, f wire.Flags, message []byte) {
	b := m.buf()
	start := len(b.B)
	b.B = append(b.B, make([]byte, wire.HeaderLen)...)
	b.B = wire.AppendResponse(b.B, r)
	b.B = append(b.B, message...)
	wire.PutHeader(b.B[start:], wire.Header{
		Length: len(b.B) - start - wire.HeaderLen, Type: wire.TypeResponse, Flags: f | wire.FlagAnswer, Stream: id,
	})
}

// EncodeStatus returns the status that stands for e on the wire.
func EncodeStatus(e *tandem.Error) []byte {
	code := e.Code
	if code == tandem.OK { // an error without a code is an error all the same
		code = tandem.Unknown
	}
	return wire.AppendStatus(nil, &wire.Status{
		Code: code, NotExecuted: e.NotExecuted, Message: e.Message, Details: e.Details, RetryAfter: e.RetryAfter,
	})
}

// Respond queues the response of a call whose handler has returned; a message is in in.Reply. It
// reports whether the machine is done with the call: not while a large response is sent.
func (m *Machine) Respond(in *Request, r *wire.Response, flags wire.Flags) (over bool) {
	m.running--
	if in.ID == 0 || m.serving(in.ID) != in {
		return false
	}
	if in.stream != nil {
		m.endRecv(in.stream, nil)
		in.stream.discard()
	}
	message := []byte(nil)
	if in.Reply != nil && len(r.Status) == 0 && !in.canceled {
		message = in.Reply.B
	}
	if uint64(len(message)) > m.peer.MaxMessage {
		e := refused(tandem.ResourceExhausted, "response of %d bytes, the caller takes at most %d: see its WithMaxMessage", len(message), m.peer.MaxMessage)
		e.NotExecuted = false
		r.Status, message = EncodeStatus(e), nil
	}
	if len(message)+len(r.Status)+len(r.Trailer)+64 <= wire.MaxBlock {
		m.served[in.ID.Index()] = nil
		m.appendResponse(in.ID, r, flags|wire.FlagEnd|wire.FlagLast, message)
		return true
	}
	r.Size = uint64(len(message))
	first := min(m.firstBlock(len(message), max(0, wire.MaxBlock-len(r.Status)-len(r.Trailer)-64)), len(message)-1)
	m.appendResponse(in.ID, r, flags, message[:first])
	in.rest = &bulk{id: in.ID, flags: wire.FlagAnswer, data: message[first:], in: in, owner: in.Reply}
	in.Reply = nil // the ring has it now
	m.ring.add(in.rest)
	return false
}
