// Package call makes calls: it encodes arguments, makes attempts, and takes the response or
// the stream. A session of package session carries an attempt ([Invoke]), or a connection of
// another protocol does ([Carry], [CarryStream]). For tandem's own packages only.
package call

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/wire"
)

// Outgoing is a call to be made: the [tandem.Call] and its [tandem.Body] in one. The first
// attempt that succeeds provides the response. Parallel attempts share the encoded arguments.
// Otherwise the memory of the arguments is given back as soon as the request has been sent,
// so that a waiting call holds none, and a retry encodes the arguments again.
type Outgoing struct {
	Call   tandem.Call
	Points *points.Attempts // the client's plugins; nil for none
	Rule   *rules.Rule      // the client's rule for the call; nil if the caller is not a client

	// Fallback, if not nil, gets how a unary call ended, and returns how it is to end: it may answer
	// a call that failed. It runs before the call's End.
	Fallback func(ctx context.Context, args, reply any, err error) error

	usualDeadline bool // the deadline is the client's default

	env     *session.Env
	first   *session.Pending // used by one attempt at a time, and by the next call; nil if shared
	codec   tandem.Codec
	args    any
	message *buffer.Buffer // the encoded arguments; nil if there are none, or an attempt holds them
	packed  bool           // message is compressed
	several bool           // message encodes a tandem.Args

	shared      bool         // interceptors may make parallel attempts and keep the call
	mu          sync.Mutex   // guards the fields below if shared
	running     int          // number of attempts that have not ended
	begun       int          // number of attempts
	over        bool         // the call has ended: later responses are dropped
	forgone     bool         // see Forgo
	recordTried bool         // tried is recorded; set before the first attempt
	movable     *tandem.Call // see MayMove
	answer      *session.Pending
	by          *tandem.Peer    // the peer that sent answer
	of          *tandem.Call    // the attempt that received answer
	accepted    bool            // that attempt has succeeded, see Accept
	spare       []spareResponse // responses of other attempts, until one is accepted
	stream      OpenedStream
	tried       []string // instances, in the order of the attempts

	checked checkedTypes // the types checked last, for this call or an earlier one
}

// outgoings is the process's pool of Outgoings that are not shared, each with a Pending.
var outgoings sync.Pool

// NewOutgoing returns a call without arguments. The caller must release it. shared says that
// interceptors see the call, so its memory must not be reused.
func NewOutgoing(e *session.Env, shared bool) *Outgoing {
	if shared {
		return &Outgoing{Call: tandem.Call{Peer: e.NoPeer()}, env: e, shared: true}
	}
	o, ok := outgoings.Get().(*Outgoing)
	if !ok {
		o = &Outgoing{first: new(session.Pending)}
	}
	o.env, o.Call.Peer = e, e.NoPeer()
	o.first.Enter(e)
	return o
}

func (o *Outgoing) lock() {
	if o.shared {
		o.mu.Lock()
	}
}

func (o *Outgoing) unlock() {
	if o.shared {
		o.mu.Unlock()
	}
}

// OutgoingOf returns the attempt's Body; false if an interceptor has replaced it. Such an
// attempt fails.
func OutgoingOf(attempt *tandem.Call) (*Outgoing, bool) {
	o, ok := attempt.Body.(*Outgoing)
	return o, ok
}

// Release gives back the memory of the call. An Outgoing that is not shared is used for
// another call afterwards. An attempt at a shared one may outlive it, and then keeps the
// message.
func (o *Outgoing) Release() {
	o.lock()
	o.over = true
	answer, idle := o.answer, o.running == 0
	o.answer = nil
	o.unlock()
	if answer != nil {
		o.drop(answer)
	}
	if !idle {
		return
	}
	o.message.Put()
	o.message = nil
	if o.first != nil && o.first.IsNew() { // else a session's queue may still hold it
		o.recycle()
	}
}

func (o *Outgoing) recycle() {
	o.Call.Reset()
	o.Rule, o.Points, o.args, o.codec, o.packed = nil, nil, nil, nil, false
	o.over, o.stream, o.by, o.of, o.forgone = false, nil, nil, nil, false
	o.begun, o.Fallback = 0, nil
	o.movable, o.usualDeadline = nil, false
	o.first.LeaveEnv()
	o.env = nil
	outgoings.Put(o)
}

// begin returns the Pending of an attempt; nil if the call is over.
func (o *Outgoing) begin(kind tandem.Kind, at *tandem.Peer) (p *session.Pending) {
	o.lock()
	over, movable := o.over, o.movable
	o.running++
	o.begun++
	if o.recordTried {
		o.tried = append(o.tried, at.Instance)
	}
	o.unlock()
	switch {
	case over:
		return nil
	case o.first != nil && o.first.IsNew() && kind == tandem.Unary:
		p = o.first
	default:
		p = o.env.NewPending()
	}
	p.Movable, p.UsualDeadline = movable, o.usualDeadline
	return p
}

// Attempts returns how many attempts have begun.
func (o *Outgoing) Attempts() int {
	o.lock()
	defer o.unlock()
	return o.begun
}

// MayMove allows the next attempts to be given up while their peer is suspect, if
// [session.Config.Move] allows it for call: then the call is retried at another instance. With a
// nil call they may not be given up. call must not change before the attempts have ended.
func (o *Outgoing) MayMove(call *tandem.Call) {
	o.lock()
	o.movable = call
	o.unlock()
}

// end keeps the response of an attempt if it is the first that succeeded. Of parallel
// attempts it also keeps the other responses, until Accept has said which one counts.
func (o *Outgoing) end(p *session.Pending, attempt *tandem.Call, at *tandem.Peer, err error) {
	o.lock()
	o.running--
	switch {
	case p == nil || err != nil || o.over:
	case o.answer == nil:
		o.answer, o.by, o.of, p = p, at, attempt, nil
	case o.recordTried && !o.accepted:
		o.spare, p = append(o.spare, spareResponse{p, at, attempt}), nil
	}
	o.unlock()
	if p != nil {
		o.drop(p)
	}
}

// spareResponse is the response of one attempt.
type spareResponse struct {
	answer *session.Pending
	by     *tandem.Peer
	of     *tandem.Call
}

func (o *Outgoing) drop(p *session.Pending) {
	if p == o.first {
		p.Clear()
	} else {
		p.Release()
	}
}

// Encode encodes the arguments with the call's codec, and compresses them if
// the call has a compressor and they are large.
func (o *Outgoing) Encode(v any) error {
	if o.env.Codec(session.ProtoCodec) != nil && follows(o.Call.Codec) && codec.IsProto(v) {
		o.Call.Codec = session.ProtoCodec
	}
	if o.codec = o.env.Codec(o.Call.Codec); o.codec == nil {
		return noCodec(o.Call.Codec)
	}
	o.args = v
	if o.message == nil {
		o.message = buffer.Get()
	}
	b, err := codec.Append(o.codec, o.message.B[:0], v)
	if err != nil {
		return refused(tandem.InvalidArgument, "arguments of %s: %v", o.Call.Method, err)
	}
	o.message.B, o.packed = b, false
	if o.Call.Keyed {
		o.fingerprint(b)
	}
	_, o.several = v.(tandem.Args)
	if o.Call.Compressor == "" || len(b) < o.env.CompressAbove() {
		return nil
	}
	return o.compress()
}

// fingerprint adds the fingerprint of a keyed call's request to its metadata, unless it has one: the
// encoding of a retry may differ.
func (o *Outgoing) fingerprint(message []byte) {
	if o.Call.Metadata.Get(tandem.FingerprintKey) != "" {
		return
	}
	sum := sha256.New()
	_, _ = io.WriteString(sum, o.Call.Codec+"\x00") // a hash does not fail
	_, _ = sum.Write(message)
	o.Call.SetMetadata(tandem.FingerprintKey, base64.RawURLEncoding.EncodeToString(sum.Sum(nil)))
}

// Size returns how many bytes of memory the encoded arguments hold; 0 while there are none.
func (o *Outgoing) Size() int {
	o.lock()
	defer o.unlock()
	if o.message == nil {
		return 0
	}
	return cap(o.message.B)
}

// follows reports whether calls with the named codec switch to the Protocol Buffers codec for
// Protocol Buffers messages: gob can't encode those, and MessagePack only their exported fields.
func follows(name string) bool { return name == "gob" || name == "msgpack" }

// FollowProto switches the call to the Protocol Buffers codec, unless its own codec is to be kept
// (see follows).
func FollowProto(call *tandem.Call) {
	if follows(call.Codec) {
		call.Codec = session.ProtoCodec
	}
}

// noCodec returns the error of a call with a codec that this side does not have.
func noCodec(name string) error {
	if name == session.ProtoCodec {
		return refused(tandem.Unimplemented, "messages of Protocol Buffers without their codec: "+
			"give protobuf.Codec() of package codec/protobuf to WithCodec, and call by a protocol that carries it (net/rpc carries gob only)")
	}
	return refused(tandem.Unimplemented, "no codec %q here: give it to WithCodec (a server: WithCodecs)", name)
}

// encoded returns the encoded arguments; nil for a call without arguments.
func (o *Outgoing) encoded() (*buffer.Buffer, error) {
	if o.message != nil || o.codec == nil {
		return o.message, nil
	}
	if err := o.Encode(o.args); err != nil {
		o.message.Put()
		o.message = nil
		return nil, err
	}
	return o.message, nil
}

// lend gives an attempt the encoded arguments. Unless o is shared, the attempt then owns them.
func (o *Outgoing) lend(p *session.Pending) error {
	message, err := o.encoded()
	if message == nil || err != nil {
		return err
	}
	p.Message, p.Compressed = message.B, o.packed
	if !o.shared {
		p.Lend(message)
		o.message = nil
	}
	return nil
}

func (o *Outgoing) compress() error {
	c := o.env.Compressor(o.Call.Compressor)
	if c == nil {
		return refused(tandem.Unimplemented, "no compressor %q here: give it to WithCompression (a server: WithCompressors)", o.Call.Compressor)
	}
	packed := buffer.Get()
	b, err := c.Compress(packed.B, o.message.B)
	if err != nil || len(b) >= len(o.message.B) {
		packed.Put()
		return nil //nolint:nilerr // sent uncompressed
	}
	packed.B = b
	o.message.Put()
	o.message, o.packed = packed, true
	return nil
}

// Decode decodes the response into v; nil discards it.
func (o *Outgoing) Decode(v any) error {
	o.lock()
	p, forgone := o.answer, o.forgone
	o.unlock()
	if forgone {
		return nil
	}
	if p == nil {
		return &tandem.Error{Code: tandem.FailedPrecondition, Message: "no response to decode: an interceptor decodes before the attempt, or returned nil for a failed one: return the error of next"}
	}
	if v == nil {
		return nil
	}
	if p.ReplyCompressed {
		return o.decompress(p.Reply, v)
	}
	if err := codec.Decode(o.codec, p.Reply, v); err != nil {
		return o.badAnswer(err)
	}
	return nil
}

// decompress decodes a compressed response.
func (o *Outgoing) decompress(message []byte, v any) error {
	c := o.env.Compressor(o.Call.Compressor)
	if c == nil {
		return &tandem.Error{Code: tandem.Internal, Message: "the response is compressed, but the call has no compressor"}
	}
	plain := buffer.Get()
	defer plain.Put()
	b, err := c.Decompress(plain.B, message, int(o.env.MaxMessage())) //nolint:gosec // bounded by memory
	if err == nil {
		plain.B = b
		err = codec.Decode(o.codec, b, v)
	}
	if err != nil {
		return o.badAnswer(err)
	}
	return nil
}

func (o *Outgoing) badAnswer(err error) error {
	return &tandem.Error{Code: tandem.Internal, Message: fmt.Sprintf("reply of %s: %v", o.Call.Method, err)}
}

// Stream returns the stream once it is open.
func (o *Outgoing) Stream() tandem.MessageStream {
	if st := o.opened(); st != nil {
		return st
	}
	return nil
}

func (o *Outgoing) opened() OpenedStream {
	o.lock()
	defer o.unlock()
	return o.stream
}

// take keeps the stream if it is the first.
func (o *Outgoing) take(st OpenedStream) bool {
	o.lock()
	defer o.unlock()
	if o.stream != nil {
		return false
	}
	o.stream = st
	return true
}

// Invoke makes an attempt at the call on a session: it is the innermost [tandem.Func] of
// every caller. call may be a copy of an Outgoing's Call; call.Body must be that [Outgoing],
// which holds the encoded message and takes the response. If the response has a load report,
// Invoke calls load with it before it returns; load may be nil.
func Invoke(ctx context.Context, s *session.Session, call *tandem.Call, load func(wire.Load)) error {
	o, ok := call.Body.(*Outgoing)
	if !ok {
		return foreignBody(call)
	}
	if err := o.Points.BeforeRequest(ctx, call); err != nil {
		return err
	}
	p := o.begin(call.Kind, s.Peer())
	if p == nil {
		return o.Points.AfterResponseHeader(ctx, call, isOver(call))
	}
	if t := o.Points.Trace(ctx, call); t != nil {
		p.Trace = t
	}
	err := describe(p, call)
	switch {
	case err != nil:
	case call.Kind == tandem.Streaming:
		err = openOn(ctx, s, call, o, p)
		p = nil // the stream has it
	default:
		if err = o.lend(p); err == nil {
			err = s.Do(ctx, p)
		}
		call.Trailer = p.Trailer
		if load != nil && p.HasLoad {
			load(p.Load)
		}
		if p.OneWay {
			p = nil // the session may still hold it
		}
	}
	o.end(p, call, s.Peer(), err)
	return o.Points.AfterResponseHeader(ctx, call, err)
}

// isOver returns the error of an attempt at a call that has ended.
func isOver(call *tandem.Call) error {
	return refused(tandem.Canceled, "the call of %s is over", call.Method)
}

// refused returns the error of an attempt that has not been made.
func refused(code tandem.Code, format string, args ...any) *tandem.Error {
	return &tandem.Error{Code: code, Message: fmt.Sprintf(format, args...), NotExecuted: true}
}

// describe copies into p what the request says about the call.
func describe(p *session.Pending, call *tandem.Call) error {
	p.Method, p.Codec, p.Compressor = call.Method, call.Codec, call.Compressor
	p.Deadline, p.Attempt, p.OneWay = call.Deadline, call.Attempt, call.Kind == tandem.OneWay
	if len(call.Metadata) == 0 {
		return nil
	}
	md, err := wire.AppendMetadata(p.Metadata[:0], call.Metadata)
	if err != nil {
		return refused(tandem.InvalidArgument, "%v", err)
	}
	p.Metadata = md
	return nil
}

// StreamOpening is how long the server may take to accept a stream.
const StreamOpening = 5 * time.Second

func openOn(ctx context.Context, s *session.Session, call *tandem.Call, o *Outgoing, p *session.Pending) error {
	openBy := time.Now().Add(StreamOpening)
	if d := p.Deadline; !d.IsZero() && d.Before(openBy) {
		openBy = d
	}
	st, err := s.Open(ctx, p, openBy)
	if err != nil {
		call.Trailer = p.Trailer
		return err
	}
	if !o.take(st) {
		_ = st.Close() // a faster attempt won
	}
	return nil
}

// Caller makes calls on one session; it is a [tandem.Caller].
type Caller struct {
	Session *session.Session
	Codec   string        // codec of calls that name none
	Timeout time.Duration // timeout of calls without a deadline that are not streams
}

var _ tandem.Caller = (*Caller)(nil)

// Call makes a unary call.
func (c *Caller) Call(ctx context.Context, method string, args, reply any, opts ...tandem.CallOption) error {
	o := c.prepare(ctx, method, tandem.Unary, opts)
	defer o.Release()
	return c.Run(ctx, o, c.invoke, args, reply)
}

func (c *Caller) invoke(ctx context.Context, call *tandem.Call) error {
	return Invoke(ctx, c.Session, call, nil)
}

// Run encodes args, makes the call with f, and decodes the response into reply.
func (*Caller) Run(ctx context.Context, o *Outgoing, f tandem.Func, args, reply any) error {
	if args == nil && codec.IsProto(reply) {
		FollowProto(&o.Call)
	}
	err := o.Encode(args)
	if err == nil && o.env.Checker() != nil && o.Call.Codec == session.ProtoCodec {
		err = o.checkTypes(args, reply)
	}
	if err == nil {
		if err = f(ctx, &o.Call); err == nil && o.Call.Kind == tandem.Unary {
			err = o.receive(ctx, reply)
		}
	}
	if o.Fallback != nil {
		err = o.Fallback(ctx, args, reply, err)
	}
	o.Call.End(err)
	return errorOrNil(err)
}

// Reply returns the encoded response of a call that succeeded, which is valid until Release, and
// whether it is compressed.
func (o *Outgoing) Reply() (message []byte, compressed bool) {
	o.lock()
	defer o.unlock()
	if o.answer == nil {
		return nil, false
	}
	return o.answer.Reply, o.answer.ReplyCompressed
}

// EncodedAgain appends the arguments in the call's codec, without compression.
func (o *Outgoing) EncodedAgain(dst []byte, args any) ([]byte, error) {
	if o.codec == nil {
		return nil, noCodec(o.Call.Codec)
	}
	return codec.Append(o.codec, dst, args)
}

// DecodeOther decodes the response of another call of the same method, codec and compressor into v;
// nil discards it.
func (o *Outgoing) DecodeOther(message []byte, compressed bool, v any) error {
	switch {
	case v == nil:
		return nil
	case compressed:
		return o.decompress(message, v)
	}
	return codec.Decode(o.codec, message, v)
}

// receive decodes the response between its points.
func (o *Outgoing) receive(ctx context.Context, reply any) error {
	if o.Points == nil {
		return o.Decode(reply)
	}
	return o.Points.Receive(ctx, &o.Call, reply, o.Decode)
}

// errorOrNil returns err as a [*tandem.Error], or nil.
func errorOrNil(err error) error {
	if err == nil {
		return nil
	}
	return tandem.AsError(err)
}

// OpenStream opens a stream.
func (c *Caller) OpenStream(ctx context.Context, method string, opts ...tandem.CallOption) (tandem.MessageStream, error) {
	return c.OpenWith(ctx, c.prepare(ctx, method, tandem.Streaming, opts), c.invoke)
}

func (c *Caller) prepare(ctx context.Context, method string, kind tandem.Kind, opts []tandem.CallOption) *Outgoing {
	o := NewOutgoing(c.Session.Env(), false)
	call := &o.Call
	call.Body, call.Method, call.Kind, call.Codec, call.Peer = o, method, kind, c.Codec, c.Session.Peer()
	for _, opt := range opts {
		opt(call)
	}
	o.SetDeadline(ctx, c.Timeout)
	return o
}

// SetDeadline gives the call the earlier of its own deadline and the context's. A call that
// has neither gets now plus timeout, unless it is a stream: a stream has no default deadline.
func (o *Outgoing) SetDeadline(ctx context.Context, timeout time.Duration) {
	call := &o.Call
	if d, ok := ctx.Deadline(); ok && (call.Deadline.IsZero() || d.Before(call.Deadline)) {
		call.Deadline = d
	}
	if call.Deadline.IsZero() && timeout > 0 && call.Kind != tandem.Streaming {
		call.Deadline, o.usualDeadline = o.env.In(timeout), true
	}
}
