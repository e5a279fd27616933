package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/dispatch"
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
	compressed bool // the request is
	codecIndex uint8
	packer     uint8 // the number of the compressor, 0 for none

	canceled bool   // by the caller; guarded by the session's mutex
	accepted bool   // the stream's first response was sent; guarded likewise
	ended    ending // of the context, as is what follows

	ctxMu sync.Mutex
	asked *doneContext // nil until somebody asks for Done

	message []byte  // the request; valid until the handler returns
	owned   *buffer // holds message when it is not the reader's
	reply   *buffer // the answer's message, encoded

	// Guarded by the session's mutex.
	request *assembly // while the request arrives
	rest    *bulk     // what is still to be sent of the answer
	stream  *Stream
}

func (in *Inbound) codec() tandem.Codec { return in.s.env.cfg.Codecs[in.codecIndex] }

// compressor is the one that the caller has chosen; packer must not be 0.
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
		return event{}, nil // goaway said that it won't run
	}
	m.accepted++
	if err := m.reserve(h); err != nil {
		return event{}, err
	}
	in := &Inbound{s: m.s, id: h.Stream, method: called}
	in.oneWay = h.Flags&wire.FlagOneWay != 0
	in.compressed = h.Flags&wire.FlagCompressed != 0
	if e := m.fill(in, &r, now); e != nil {
		m.refuse(in, h, e)
		return event{}, nil
	}
	if e := m.check(in, h, len(block), &r); e != nil {
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
	in.request = &assembly{id: in.id, answer: wire.FlagAnswer, buf: takeBuffer(), size: int(r.Size)} //nolint:gosec // checked
	in.request.buf.b = append(in.request.buf.b, block...)
	return event{}, m.startAssembly(in.request)
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
		m.served = append(m.served, nil)
	}
	m.served[i] = in
}

// fill makes the tandem.Call of a request.
func (m *machine) fill(in *Inbound, r *wire.Request, now int64) *tandem.Error {
	c := &in.call
	c.Method, c.Attempt, c.Body, c.Peer = in.method.name, int(r.Attempt), in, m.s.peer
	if in.method.target == nil {
		return refused(tandem.Unimplemented, "no method %q here", c.Method)
	}
	if int(r.Codec) >= len(m.env.cfg.Codecs) {
		return refused(tandem.Unimplemented, "no codec number %d here", r.Codec)
	}
	in.codecIndex = r.Codec
	c.Codec = m.own.Codecs[r.Codec]
	if r.Compressor > 0 {
		if int(r.Compressor) > len(m.own.Compressors) {
			return refused(tandem.Unimplemented, "no compressor number %d here", r.Compressor)
		}
		c.Compressor, in.packer = m.own.Compressors[r.Compressor-1], r.Compressor
	}
	if in.compressed && in.packer == 0 {
		return refused(tandem.InvalidArgument, "compressed message without a compressor")
	}
	timeout := r.Timeout
	if t := in.method.target.Timeout; t > 0 && (timeout == 0 || t < timeout) {
		timeout = t
	}
	if timeout > 0 {
		c.Deadline = m.env.at(now).Add(timeout)
	}
	var err error
	if c.Metadata, err = wire.ParseMetadata(r.Metadata); err != nil {
		return refused(tandem.InvalidArgument, "%v", err)
	}
	return nil
}

// check refuses calls that fit neither the method nor the limits.
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
	case in.oneWay:
		in.call.Kind = tandem.OneWay
	case stream:
		in.call.Kind = tandem.Streaming
	}
	switch {
	case size > limit:
		return refused(tandem.ResourceExhausted, "message of %d bytes, %s takes at most %d", size, in.call.Method, limit)
	case stream != (target.Kind == tandem.Streaming):
		return refused(tandem.Unimplemented, "%s is %s", in.call.Method, kindName(target.Kind))
	case stream && h.Flags&wire.FlagEnd == 0:
		return refused(tandem.InvalidArgument, "a stream's request carries no message")
	case m.queuedBytes() > writeHard:
		return refused(tandem.ResourceExhausted, "the caller reads too slowly: %d bytes of answers wait", m.queuedBytes())
	case in.oneWay && m.running >= int(m.own.MaxOpen): //nolint:gosec // bounded
		return refused(tandem.ResourceExhausted, "too many one-way calls are running")
	}
	return nil
}

func kindName(k tandem.Kind) string {
	if k == tandem.Streaming {
		return "a stream"
	}
	return "no stream"
}

func refused(code tandem.Code, format string, args ...any) *tandem.Error {
	return &tandem.Error{Code: code, Message: fmt.Sprintf(format, args...), NotExecuted: true}
}

// refuse answers a call that is not run. A large request's remaining blocks
// find no call and are dropped. Of a one-way call only a large one is answered:
// else its caller would wait for credit for ever.
func (m *machine) refuse(in *Inbound, h wire.Header, e *tandem.Error) {
	if !in.oneWay || h.Flags&wire.FlagEnd == 0 {
		m.appendResponse(h.Stream, &wire.Response{Status: encodeStatus(e)}, wire.FlagEnd|wire.FlagLast, nil)
	}
}

func (m *machine) startRun(in *Inbound, message []byte, owned *buffer) (event, error) {
	in.request, in.message, in.owned = nil, message, owned
	if in.oneWay && in.id != 0 {
		m.served[in.id.Index()] = nil // its number may be used again
	}
	m.running++
	return event{run: in}, nil
}

func (m *machine) onCancel(id wire.Stream) {
	in := m.serving(id)
	if in == nil {
		return
	}
	in.canceled = true
	e := &tandem.Error{Code: tandem.Canceled, Message: "canceled by the caller", NotExecuted: in.request != nil}
	switch {
	case in.request != nil: // it never ran
		m.dropAssembly(in.request)
		giveBuffer(in.request.buf)
		in.request = nil
		m.served[id.Index()] = nil
		m.appendResponse(id, &wire.Response{Status: encodeStatus(e)}, wire.FlagEnd|wire.FlagLast, nil)
	case in.rest != nil: // its answer is on the way
		m.ring.remove(in.rest)
		giveBuffer(in.rest.owner)
		in.rest = nil
		m.served[id.Index()] = nil
		m.appendReset(id, e)
	default:
		if in.stream != nil {
			in.stream.endRecv(e)
		}
		in.cancel(canceled)
	}
}

func (m *machine) appendReset(id wire.Stream, e *tandem.Error) {
	st := encodeStatus(e)
	b := m.buf()
	b.b = wire.AppendHeader(b.b, wire.Header{Length: len(st), Type: wire.TypeReset, Flags: wire.FlagAnswer, Stream: id})
	b.b = append(b.b, st...)
}

// appendResponse appends one response frame with a message that fits in it.
func (m *machine) appendResponse(id wire.Stream, r *wire.Response, f wire.Flags, message []byte) {
	b := m.buf()
	start := len(b.b)
	b.b = append(b.b, make([]byte, wire.HeaderLen)...)
	b.b = wire.AppendResponse(b.b, r)
	b.b = append(b.b, message...)
	wire.PutHeader(b.b[start:], wire.Header{
		Length: len(b.b) - start - wire.HeaderLen, Type: wire.TypeResponse, Flags: f | wire.FlagAnswer, Stream: id,
	})
}

func encodeStatus(e *tandem.Error) []byte {
	return wire.AppendStatus(nil, &wire.Status{Code: e.Code, NotExecuted: e.NotExecuted, Message: e.Message, Details: e.Details})
}

// respond sends the answer of a call whose handler has returned.
func (m *machine) respond(in *Inbound, r *wire.Response, flags wire.Flags) {
	m.running--
	if in.id == 0 || m.serving(in.id) != in {
		return
	}
	if in.stream != nil {
		in.stream.endRecv(nil)
		in.stream.discard()
	}
	message := []byte(nil)
	if in.reply != nil && len(r.Status) == 0 && !in.canceled {
		message = in.reply.b
	}
	if uint64(len(message)) > m.peer.MaxMessage {
		e := refused(tandem.ResourceExhausted, "answer of %d bytes, the caller takes at most %d", len(message), m.peer.MaxMessage)
		e.NotExecuted = false
		r.Status, message = encodeStatus(e), nil
	}
	if len(message)+len(r.Status)+len(r.Trailer)+64 <= wire.MaxBlock {
		m.served[in.id.Index()] = nil
		m.appendResponse(in.id, r, flags|wire.FlagEnd|wire.FlagLast, message)
		return
	}
	r.Size = uint64(len(message))
	first := max(0, wire.MaxBlock-len(r.Status)-len(r.Trailer)-64)
	first = min(first, len(message)-1)
	m.appendResponse(in.id, r, flags, message[:first])
	in.rest = &bulk{id: in.id, flags: wire.FlagAnswer, data: message[first:], in: in, owner: in.reply}
	in.reply = nil // the ring's now
	m.ring.add(in.rest)
}

// execute runs the handler and sends its answer; the caller flushes. It also
// answers when the handler ends its goroutine.
func (in *Inbound) execute() {
	dispatch.Run(in, &in.call, in.method.target.Func, finished)
}

// finished takes the Inbound from the context, which nobody can have replaced:
// the call's Body may by now be an interceptor's.
func finished(ctx context.Context, call *tandem.Call, err error) {
	in := ctx.(*Inbound)
	e, flags := in.conclude(call, err)
	in.finish(e, flags)
}

// conclude runs what the application has to say at the end of a call: what it
// registered with OnEnd, the methods of its error, its compressor.
func (in *Inbound) conclude(call *tandem.Call, err error) (e *tandem.Error, flags wire.Flags) {
	returned := false
	defer func() {
		if !returned {
			e = tandem.AsError(dispatch.Died(call.Method, recover(), in.s.env.cfg.OnPanic))
		}
	}()
	call.End(err)
	if e = tandem.AsError(err); e == nil {
		flags = in.compressReply()
	}
	returned = true
	return e, flags
}

func (in *Inbound) finish(e *tandem.Error, flags wire.Flags) {
	s := in.s
	var r wire.Response
	if e != nil {
		r.Status = encodeStatus(e)
	}
	if in.call.Trailer != nil {
		r.Trailer = in.encodeTrailer()
	}
	if s.env.cfg.Load != nil {
		r.Load, r.HasLoad = s.env.cfg.Load(), true
	}
	s.mu.Lock()
	s.m.respond(in, &r, flags)
	idle := s.m.draining && s.m.running == 0
	s.mu.Unlock()
	if idle {
		signal(s.quiet)
	}
	in.cancel(canceled)
	giveBuffer(in.owned)
	giveBuffer(in.reply)
	in.message, in.owned, in.reply = nil, nil, nil
}

func (in *Inbound) encodeTrailer() []byte {
	b, err := wire.AppendMetadata(nil, in.call.Trailer)
	if err != nil {
		in.s.env.cfg.Logger.Warn("trailer dropped", "method", in.call.Method, "error", err)
		return nil
	}
	return b
}

// compressReply compresses a large answer of a call that has a compressor.
func (in *Inbound) compressReply() wire.Flags {
	e := in.s.env
	if in.packer == 0 || in.call.Compressor == "" || in.reply == nil || len(in.reply.b) < e.cfg.CompressAbove {
		return 0
	}
	packed := takeBuffer()
	b, err := in.compressor().Compress(packed.b, in.reply.b)
	if err != nil || len(b) >= len(in.reply.b) {
		giveBuffer(packed)
		return 0
	}
	packed.b = b
	giveBuffer(in.reply)
	in.reply = packed
	return wire.FlagCompressed
}

var errStreamBody = &tandem.Error{Code: tandem.FailedPrecondition, Message: "a stream has no single message: use its Body's Stream"}

// Decode decodes the request into v.
func (in *Inbound) Decode(v any) error {
	if in.stream != nil {
		return errStreamBody
	}
	message := in.message
	if in.compressed {
		plain := takeBuffer()
		defer giveBuffer(plain)
		limit := int(in.s.m.own.MaxMessage) //nolint:gosec // bounded by memory
		if in.method.target.MaxMessage > 0 {
			limit = in.method.target.MaxMessage
		}
		b, err := in.compressor().Decompress(plain.b, message, limit)
		if err != nil {
			return refused(tandem.InvalidArgument, "arguments of %s: %v", in.call.Method, err)
		}
		plain.b, message = b, b
	}
	if err := codec.Decode(in.codec(), message, v); err != nil {
		return refused(tandem.InvalidArgument, "arguments of %s: %v", in.call.Method, err)
	}
	return nil
}

// Encode encodes the answer.
func (in *Inbound) Encode(v any) error {
	if in.stream != nil {
		return errStreamBody
	}
	if in.reply == nil {
		in.reply = takeBuffer()
	}
	b, err := codec.Append(in.codec(), in.reply.b[:0], v)
	if err != nil {
		return &tandem.Error{Code: tandem.Internal, Message: fmt.Sprintf("result of %s: %v", in.call.Method, err)}
	}
	in.reply.b = b
	return nil
}

// Stream accepts the stream, if the call is one.
func (in *Inbound) Stream() tandem.MessageStream {
	if in.stream == nil {
		return nil
	}
	in.stream.accept()
	return in.stream
}

// runApart executes the call in its own goroutine and learns how long it took.
func (s *Session) runApart(in *Inbound) {
	if in.owned == nil { // the message is the reader's
		in.owned = takeBuffer()
		in.owned.b = append(in.owned.b, in.message...)
		in.message = in.owned.b
	}
	s.env.wg.Go(func() {
		defer s.flush()
		start := time.Now()
		in.execute()
		in.method.target.observe(time.Since(start))
	})
}
