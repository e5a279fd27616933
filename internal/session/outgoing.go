package session

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/wire"
)

// Outgoing is a call to be made: the [tandem.Call] and its [tandem.Body] in
// one allocation. The arguments are encoded once; attempts share them; the
// first attempt that succeeds provides the answer.
type Outgoing struct {
	Call tandem.Call

	env      *Env
	codec    tandem.Codec
	message  *buffer
	packed   bool
	attempts atomic.Int32 // that are running; far below zero once the call is over
	answer   atomic.Pointer[Pending]
	stream   atomic.Pointer[Stream]
}

// NewOutgoing returns a call without arguments, to be released or recycled.
func (e *Env) NewOutgoing() *Outgoing {
	o, ok := e.outgoings.Get().(*Outgoing)
	if !ok {
		o = &Outgoing{env: e}
	}
	o.Call.Body, o.Call.Peer = o, &e.nobody
	return o
}

// Recycle is Release for a call that nobody can have kept: its memory will be
// another call's.
func (o *Outgoing) Recycle() {
	e := o.env
	o.Release()
	*o = Outgoing{env: e}
	e.outgoings.Put(o)
}

// callOver is added to the number of attempts when their call is over.
const callOver = -1 << 30

// Release gives back what the call holds. An attempt may outlive its call, when
// an interceptor made several at a time: the message then is left to it.
func (o *Outgoing) Release() {
	if o.attempts.Add(callOver) == callOver {
		giveBuffer(o.message)
		o.message = nil
	}
	if p := o.answer.Swap(nil); p != nil {
		p.Release()
	}
}

// Encode encodes the arguments with the call's codec, and compresses them if
// the call has a compressor and they are large.
func (o *Outgoing) Encode(v any) error {
	o.codec = o.env.Codec(o.Call.Codec)
	if o.codec == nil {
		return refused(tandem.Unimplemented, "no codec %q here: give it to WithCodecs", o.Call.Codec)
	}
	if o.message == nil {
		o.message = takeBuffer()
	}
	b, err := codec.Append(o.codec, o.message.b[:0], v)
	if err != nil {
		return refused(tandem.InvalidArgument, "arguments of %s: %v", o.Call.Method, err)
	}
	o.message.b, o.packed = b, false
	if o.Call.Compressor == "" || len(b) < o.env.cfg.CompressAbove {
		return nil
	}
	return o.compress()
}

func (o *Outgoing) compress() error {
	c := o.env.Compressor(o.Call.Compressor)
	if c == nil {
		return refused(tandem.Unimplemented, "no compressor %q here: give it to WithCompressors", o.Call.Compressor)
	}
	packed := takeBuffer()
	b, err := c.Compress(packed.b, o.message.b)
	if err != nil || len(b) >= len(o.message.b) {
		giveBuffer(packed)
		return nil //nolint:nilerr // sent as it is
	}
	packed.b = b
	giveBuffer(o.message)
	o.message, o.packed = packed, true
	return nil
}

// Decode decodes the answer into v; nil discards it.
func (o *Outgoing) Decode(v any) error {
	p := o.answer.Load()
	if p == nil {
		return &tandem.Error{Code: tandem.FailedPrecondition, Message: "no answer to decode yet"}
	}
	if v == nil {
		return nil
	}
	message := p.Reply
	if p.ReplyCompressed {
		c := o.env.Compressor(o.Call.Compressor)
		if c == nil {
			return &tandem.Error{Code: tandem.Internal, Message: "answer is compressed, the call was not"}
		}
		plain := takeBuffer()
		defer giveBuffer(plain)
		b, err := c.Decompress(plain.b, message, int(o.env.cfg.Settings.MaxMessage)) //nolint:gosec // bounded by memory
		if err != nil {
			return o.badAnswer(err)
		}
		plain.b, message = b, b
	}
	if err := codec.Decode(o.codec, message, v); err != nil {
		return o.badAnswer(err)
	}
	return nil
}

func (o *Outgoing) badAnswer(err error) error {
	return &tandem.Error{Code: tandem.Internal, Message: fmt.Sprintf("answer of %s: %v", o.Call.Method, err)}
}

// Stream returns the stream once it is open.
func (o *Outgoing) Stream() tandem.MessageStream {
	if st := o.stream.Load(); st != nil {
		return st
	}
	return nil
}

// Invoke makes the call on this session: it is the innermost [tandem.Func] of
// every caller. call.Body must be an [Outgoing], whichever copy of its Call
// this is: it holds the message, encoded, and takes the answer.
func (s *Session) Invoke(ctx context.Context, call *tandem.Call) error {
	o, ok := call.Body.(*Outgoing)
	if !ok {
		return refused(tandem.Internal, "call of %s with a Body of type %T: an interceptor of a client must leave the Body, "+
			"for the message is encoded already; change messages in a codec or in an interceptor of the server", call.Method, call.Body)
	}
	if o.attempts.Add(1) < 0 {
		return refused(tandem.Canceled, "the call of %s is over", call.Method)
	}
	defer o.attempts.Add(-1)
	p := s.env.NewPending()
	p.Method, p.Codec, p.Compressor = call.Method, call.Codec, call.Compressor
	p.Deadline, p.Attempt, p.OneWay = call.Deadline, call.Attempt, call.Kind == tandem.OneWay
	if len(call.Metadata) > 0 {
		md, err := wire.AppendMetadata(nil, call.Metadata)
		if err != nil {
			return refused(tandem.InvalidArgument, "%v", err)
		}
		p.Metadata = md
	}
	if call.Kind == tandem.Streaming {
		return s.invokeStream(ctx, call, o, p)
	}
	if o.message != nil {
		p.Message, p.Compressed = o.message.b, o.packed
	}
	err := s.Do(ctx, p)
	if p.OneWay { // the session may still hold it
		return err
	}
	call.Trailer = p.Trailer
	if err != nil || !o.answer.CompareAndSwap(nil, p) {
		p.Release()
	}
	return err
}

// streamOpening is how long a stream may take to be accepted.
const streamOpening = 5 * time.Second

func (s *Session) invokeStream(ctx context.Context, call *tandem.Call, o *Outgoing, p *Pending) error {
	openBy := time.Now().Add(streamOpening)
	if d := p.Deadline; !d.IsZero() && d.Before(openBy) {
		openBy = d
	}
	st, err := s.Open(ctx, p, openBy)
	if err != nil {
		call.Trailer = p.Trailer
		return err
	}
	if !o.stream.CompareAndSwap(nil, st) {
		_ = st.Close() // a faster attempt won
	}
	return nil
}

// Caller makes calls on one session; it is a [tandem.Caller].
type Caller struct {
	Session *Session
	Codec   string        // of calls that name none
	Timeout time.Duration // of calls without a deadline that are no streams
}

var _ tandem.Caller = (*Caller)(nil)

// Call makes a unary call.
func (c *Caller) Call(ctx context.Context, method string, args, reply any, opts ...tandem.CallOption) error {
	o := c.prepare(ctx, method, tandem.Unary, opts)
	defer o.Recycle()
	return c.Run(ctx, o, c.Session.Invoke, args, reply)
}

// Run encodes args, sends the call through f and decodes the answer.
func (*Caller) Run(ctx context.Context, o *Outgoing, f tandem.Func, args, reply any) error {
	err := o.Encode(args)
	if err == nil {
		if err = f(ctx, &o.Call); err == nil && o.Call.Kind == tandem.Unary {
			err = o.Decode(reply)
		}
	}
	o.Call.End(err)
	return errorOrNil(err)
}

// errorOrNil makes every error that leaves a [*tandem.Error].
func errorOrNil(err error) error {
	if err == nil {
		return nil
	}
	return tandem.AsError(err)
}

// OpenStream opens a stream.
func (c *Caller) OpenStream(ctx context.Context, method string, opts ...tandem.CallOption) (tandem.MessageStream, error) {
	return c.OpenWith(ctx, c.prepare(ctx, method, tandem.Streaming, opts), c.Session.Invoke)
}

func (c *Caller) prepare(ctx context.Context, method string, kind tandem.Kind, opts []tandem.CallOption) *Outgoing {
	o := c.Session.env.NewOutgoing()
	call := &o.Call
	call.Method, call.Kind, call.Codec, call.Peer = method, kind, c.Codec, c.Session.peer
	for _, opt := range opts {
		opt(call)
	}
	SetDeadline(ctx, call, c.Timeout)
	return o
}

// SetDeadline gives the call the earlier of its own deadline and the context's.
// One that has neither gets now plus timeout, unless it is a stream: that lives
// until it is told otherwise.
func SetDeadline(ctx context.Context, call *tandem.Call, timeout time.Duration) {
	if d, ok := ctx.Deadline(); ok && (call.Deadline.IsZero() || d.Before(call.Deadline)) {
		call.Deadline = d
	}
	if call.Deadline.IsZero() && timeout > 0 && call.Kind != tandem.Streaming {
		call.Deadline = time.Now().Add(timeout)
	}
}
