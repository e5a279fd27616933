package session

import (
	"fmt"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/wire"
)

// Inbound is a call that the peer makes: one allocation that is the handler's
// context, its [tandem.Call] and the call's [tandem.Body].
type Inbound struct {
	call   tandem.Call
	s      *Session
	method *method

	id         wire.Stream
	oneWay     bool
	apart      bool // runs in a goroutine of its own
	large      bool // the request arrived in several blocks
	unheld     bool // the memory of its copy is not reserved yet
	compressed bool // the request is compressed
	codecIndex uint8
	packer     uint8 // the number of the compressor, 0 for none
	counted    int   // bytes of the response that are included in Session.encoded; guarded by the session's mutex

	arrived int64             // ns; when the request arrived at this host, as far as is known
	waited  int64             // ns of waiting for memory since the call began
	slot    overload.Slot     // of a call that the gate counts
	waits   *overload.Request // the entry in the gate's queue, present or past; guarded by the session's mutex

	canceled bool   // the caller has canceled the call; guarded by the session's mutex
	accepted bool   // the stream's first response was sent; guarded by the session's mutex
	ended    ending // how the context ended; guarded by ctxMu, as are entered and asked

	entered bool // see Enter

	ctxMu sync.Mutex
	asked *doneContext // nil until Done or AfterFunc is called

	pairs   *wire.Pairs    // memory of the metadata that recycle keeps; nil for none
	message []byte         // the request; valid until the handler returns
	owned   *buffer.Buffer // holds message when that is not in the reader's buffer
	reply   *buffer.Buffer // the response's message, encoded
	hold    *budget.Hold   // memory of a large request; nil while nothing is reserved

	// Guarded by the session's mutex.
	request *assembly // while the request arrives
	rest    *bulk     // the part of the response that is not sent yet
	stream  *Stream
}

func newInbound() *Inbound {
	if in, ok := inbounds.Get().(*Inbound); ok {
		return in
	}
	return new(Inbound)
}

// recycle returns an Inbound to the pool, with the buffer of its response. No
// goroutine may hold it any more.
func (in *Inbound) recycle() {
	pairs := in.pairs
	if pairs != nil && !pairs.Small() {
		pairs = nil
	}
	*in = Inbound{reply: in.reply.Keep(), pairs: pairs}
	inbounds.Put(in)
}

func (in *Inbound) codec() tandem.Codec { return in.s.env.cfg.Codecs[in.codecIndex] }

// compressor returns the compressor that the caller chose; in.packer must not be 0.
func (in *Inbound) compressor() tandem.Compressor { return in.s.env.cfg.Compressors[in.packer-1] }

func (m *machine) serving(id wire.Stream) *Inbound {
	if i := int(id.Index()); i < len(m.served) {
		if in := m.served[i]; in != nil && in.id == id {
			return in
		}
	}
	return nil
}

// onRequest opens a call of the peer. Names and the count of requests advance
// even when the call is refused: the peer counts them too.
func (m *machine) onRequest(h wire.Header, payload []byte, now int64) (event, error) {
	var r wire.Request
	block, err := wire.ParseRequest(payload, &r)
	if err != nil {
		return event{}, err
	}
	called, err := m.names.resolve(r.Name, m.env.cfg.Resolve)
	if err != nil {
		return event{}, err
	}
	if m.draining {
		return event{}, nil // the goaway frame told the peer that this call won't run
	}
	if m.queuedBytes() > 2*writeHard { // the peer does not even read refusals
		return event{}, fmt.Errorf("%w: %d bytes of responses are queued", errFlood, m.queuedBytes())
	}
	m.accepted++
	if len(m.incoming.list) > 0 || h.Flags&wire.FlagEnd == 0 {
		m.incoming.countArrived(len(payload), now)
	}
	if err := m.reserve(h); err != nil {
		return event{}, err
	}
	in := newInbound()
	in.s, in.id, in.method = m.s, h.Stream, called
	in.oneWay = h.Flags&wire.FlagOneWay != 0
	in.compressed = h.Flags&wire.FlagCompressed != 0
	if e := m.fill(in, h, &r, now); e != nil {
		return m.refuseThroughInterceptors(in, h, e)
	}
	if e := m.check(in, h, len(block), &r); e != nil {
		if !m.hidesMethod(in, h, &r) {
			return m.refuseThroughInterceptors(in, h, e)
		}
		in.method = &method{name: in.method.name, target: in.method.target.refusing(e)}
	}
	if e := m.reserveRoom(in, h, len(block)); e != nil {
		m.refuse(in, h, e)
		return event{}, nil
	}
	m.serve(in)
	if h.Flags&wire.FlagStream != 0 {
		in.stream = newStream(m, in.id, in)
	}
	if h.Flags&wire.FlagEnd != 0 {
		return m.startRun(in, block, nil)
	}
	in.request = &assembly{id: in.id, answer: wire.FlagAnswer, buf: buffer.Get(), have: len(block), size: int(r.Size), in: in} //nolint:gosec // checked
	in.request.buf.B = append(in.request.buf.B, block...)
	return event{}, m.startAssembly(in.request)
}

// reserveRoom returns an error if there is no room for a call. It reserves memory for the first
// block of a request that is still arriving.
func (m *machine) reserveRoom(in *Inbound, h wire.Header, block int) *tandem.Error {
	if e := m.checkRoom(in, h); e != nil || h.Flags&wire.FlagEnd != 0 {
		return e
	}
	return in.begin(block)
}

// reserve checks the stream number of a new request.
func (m *machine) reserve(h wire.Header) error {
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
	if uint64(i) >= m.own.MaxOpen { //nolint:gosec // not negative
		return violationf("stream index %d, limit %d", i, m.own.MaxOpen)
	}
	if i < len(m.served) && m.served[i] != nil {
		return violationf("stream %#x opened while %#x is open", uint64(h.Stream), uint64(m.served[i].id))
	}
	return nil
}

func (m *machine) serve(in *Inbound) {
	if in.id == 0 {
		return
	}
	i := int(in.id.Index())
	for i >= len(m.served) {
		m.served = extend(m.served, m.first[:], nil)
	}
	m.served[i] = in
}

// fill fills in the tandem.Call of a request. Metadata and deadline come first: if another
// field is refused, interceptors may still see the call (see refuseThroughInterceptors).
func (m *machine) fill(in *Inbound, h wire.Header, r *wire.Request, now int64) *tandem.Error {
	c := &in.call
	c.Method, c.Attempt, c.Body, c.Peer = in.method.name, int(r.Attempt), in, m.s.peer
	switch {
	case in.oneWay:
		c.Kind = tandem.OneWay
	case h.Flags&wire.FlagStream != 0:
		c.Kind = tandem.Streaming
	}
	if in.method.target == nil {
		return refused(tandem.Unimplemented, "no method %q here", c.Method)
	}
	timeout := r.Timeout
	if t := in.method.target.Timeout; t > 0 && (timeout == 0 || t < timeout) {
		timeout = t
	}
	in.arrived = now - m.age
	if timeout > 0 {
		m.sawTimeout(timeout)
		c.Deadline = m.env.at(in.arrived + int64(timeout))
	}
	if len(r.Metadata) > 0 {
		var err error
		if c.Metadata, err = in.memory().Parse(r.Metadata); err != nil {
			return refused(tandem.InvalidArgument, "%v", err)
		}
	}
	return m.fillEncoding(in, r)
}

func (m *machine) fillEncoding(in *Inbound, r *wire.Request) *tandem.Error {
	if int(r.Codec) >= len(m.own.Codecs) {
		return refused(tandem.Unimplemented, "no codec number %d here", r.Codec)
	}
	in.codecIndex = r.Codec
	in.call.Codec = m.own.Codecs[r.Codec]
	if r.Compressor > 0 {
		if int(r.Compressor) > len(m.own.Compressors) {
			return refused(tandem.Unimplemented, "no compressor number %d here", r.Compressor)
		}
		in.call.Compressor, in.packer = m.own.Compressors[r.Compressor-1], r.Compressor
	}
	if in.compressed && in.packer == 0 {
		return refused(tandem.InvalidArgument, "compressed message without a compressor")
	}
	return nil
}

// memory returns the Pairs to parse the metadata into. They are reused if the method allows that.
func (in *Inbound) memory() *wire.Pairs {
	if !in.method.target.Reuse {
		return new(wire.Pairs)
	}
	if in.pairs == nil {
		in.pairs = new(wire.Pairs)
	}
	return in.pairs
}

// check returns an error for a call that does not fit its method or a limit.
func (m *machine) check(in *Inbound, h wire.Header, block int, r *wire.Request) *tandem.Error {
	size, limit := uint64(block), m.own.MaxMessage //nolint:gosec // not negative
	if h.Flags&wire.FlagEnd == 0 {
		size = r.Size
	}
	target := in.method.target
	if target.MaxMessage > 0 {
		limit = uint64(target.MaxMessage)
	}
	stream := h.Flags&wire.FlagStream != 0
	switch {
	case size > limit:
		return refused(tandem.ResourceExhausted, "message of %d bytes, %s takes at most %d: see the server's WithMaxMessage", size, in.call.Method, limit)
	case stream != (target.Kind == tandem.Streaming) && !target.Absent:
		return refused(tandem.Unimplemented, "%s is %s", in.call.Method, kindName(target.Kind))
	case stream && h.Flags&wire.FlagEnd == 0:
		return refused(tandem.InvalidArgument, "a stream's request carries no message")
	}
	return nil
}

// hidesMethod reports whether a large request that does not fit its method is received to its end,
// like one for a method that does not exist: an earlier response, before interceptors have
// authenticated the caller, would reveal that the method exists.
func (m *machine) hidesMethod(in *Inbound, h wire.Header, r *wire.Request) bool {
	return in.method.target.Guarded && h.Flags&(wire.FlagEnd|wire.FlagStream) == 0 && r.Size <= m.own.MaxMessage
}

// refuseThroughInterceptors ends a call with the error e. Interceptors of a Guarded method, such as
// authentication, see the call first: a caller without credentials learns nothing about
// methods, codecs and limits.
func (m *machine) refuseThroughInterceptors(in *Inbound, h wire.Header, e *tandem.Error) (event, error) {
	t := in.method.target
	if t == nil || !t.Guarded || m.checkRoom(in, h) != nil {
		m.refuse(in, h, e)
		return event{}, nil //nolint:nilerr // e is the response, and says more than checkRoom
	}
	in.method = &method{name: in.method.name, target: t.refusing(e)}
	if h.Flags&wire.FlagEnd == 0 { // its caller waits for credit, so it gets a response
		in.oneWay = false
	}
	m.serve(in)
	return m.startRun(in, nil, nil)
}

// checkRoom returns an error if the connection has no room for a call of the peer.
func (m *machine) checkRoom(in *Inbound, h wire.Header) *tandem.Error {
	switch {
	case h.Flags&wire.FlagEnd == 0 && m.incoming.held > maxHeld:
		return refused(tandem.ResourceExhausted, "too many large messages are arriving: %d bytes are held", m.incoming.held)
	case m.queuedBytes() > writeHard:
		return refused(tandem.ResourceExhausted, "the caller reads too slowly: %d bytes of responses are queued", m.queuedBytes())
	case in.oneWay && m.running >= int(m.own.MaxOpen): //nolint:gosec // bounded
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
func (m *machine) refuse(in *Inbound, h wire.Header, e *tandem.Error) {
	if !in.oneWay || h.Flags&wire.FlagEnd == 0 {
		m.appendResponse(h.Stream, &wire.Response{Status: encodeStatus(e)}, wire.FlagEnd|wire.FlagLast, nil)
	}
}
