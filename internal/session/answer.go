package session

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/wire"
)

// answer is the response to send when a handler has returned.
type answer struct {
	in     *Inbound // nil for none
	r      wire.Response
	flags  wire.Flags
	unseen bool // no handler or interceptor has seen the call
}

// execute runs the handler and stores the response in a. If the handler ends its
// goroutine, exited sends the response.
func (in *Inbound) execute(a *answer) {
	err := dispatch.Run(in, &in.call, in.method.target.Func, exited)
	in.outcome(a, &in.call, err)
}

// tooLate refuses a call whose deadline has passed before its handler could start.
func (in *Inbound) tooLate(a *answer) {
	in.outcome(a, &in.call, refused(tandem.DeadlineExceeded, "the deadline of %s passed before it could start", in.call.Method))
}

// exited answers a call whose handler has ended its goroutine. It takes the Inbound
// from ctx, as execute passed it: an interceptor may have replaced the call's Body.
func exited(ctx context.Context, call *tandem.Call, err error) {
	in := ctx.(*Inbound)
	var a answer
	in.outcome(&a, call, err)
	in.s.answer(&a)
}

// outcome ends the call on this side, stores the response in a, and gives back the request's memory.
func (in *Inbound) outcome(a *answer, call *tandem.Call, err error) {
	e, flags := in.conclude(call, err)
	a.in, a.flags = in, flags
	if e != nil {
		a.r.Status = machine.EncodeStatus(e)
	}
	if in.call.Trailer != nil {
		a.r.Trailer = in.encodeTrailer()
	}
	in.release()
}

// release gives back the memory of the request.
func (in *Inbound) release() {
	in.Owned.Put()
	in.Message, in.Owned = nil, nil
	if in.hold != nil {
		in.hold.Release()
		in.hold = nil
	}
	if in.stream != nil {
		in.stream.releaseHold()
	}
}

// answer queues the response of a call. The caller must flush.
func (s *Session) answer(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answerLocked(a)
}

func (s *Session) answerLocked(a *answer) {
	in := a.in
	if s.m.QueuedBytes() == 0 && s.env.cfg.Load != nil { // one load report for each write is enough
		a.r.Load, a.r.HasLoad = s.env.cfg.Load(s.env.running.Load()-1), true // without this call, whose handler has returned
	}
	over := s.m.Respond(&in.Request, &a.r, a.flags)
	s.forgetLocked(in)
	if in.counted > 0 {
		s.uncountLocked(in)
	}
	asked := in.cancel(canceled) // after respond: a goroutine that still uses the stream must see how the stream ended
	if s.m.IsDraining() && s.m.Running() == 0 {
		machine.Signal(s.quiet)
	}
	t := in.method.target
	if over && !asked && (a.unseen || t != nil && t.Reuse && len(a.r.Status) == 0) {
		in.recycle()
		return
	}
	in.Reply.Put()
	in.Reply = nil
}

// conclude runs the application's code at the end of a call: the functions that it
// registered with OnEnd, the methods of its error, its compressor. A panic there
// becomes the error of the call.
func (in *Inbound) conclude(call *tandem.Call, err error) (e *tandem.Error, flags wire.Flags) {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		e = tandem.AsError(dispatch.Died(call.Method, v, in.s.env.cfg.OnPanic))
		if v == nil { // this goroutine ends, so the response must be queued here
			a := answer{in: in}
			a.r.Status = machine.EncodeStatus(e)
			in.s.answer(&a)
		}
	}()
	call.End(err)
	switch e = tandem.AsError(err); {
	case e == nil:
		flags = in.compressReply()
	case e.NotExecuted && in.hasEntered():
		c := *e
		c.NotExecuted, e = false, &c
	}
	returned = true
	return e, flags
}

func (in *Inbound) encodeTrailer() []byte {
	b, err := wire.AppendMetadata(nil, in.call.Trailer)
	if err != nil {
		in.s.env.cfg.Logger.Warn("trailer dropped", "method", in.call.Method, "error", err)
		return nil
	}
	return b
}

// compressReply compresses a large response of a call that has a compressor.
func (in *Inbound) compressReply() wire.Flags {
	e := in.s.env
	if in.Compressor == 0 || in.call.Compressor == "" || in.Reply == nil || len(in.Reply.B) < e.cfg.CompressAbove {
		return 0
	}
	packed := buffer.Get()
	b, err := in.compressor().Compress(packed.B, in.Reply.B)
	if err != nil || len(b) >= len(in.Reply.B) {
		packed.Put()
		return 0
	}
	packed.B = b
	in.Reply.Put()
	in.Reply = packed
	return wire.FlagCompressed
}

var errStreamBody = &tandem.Error{Code: tandem.FailedPrecondition, Message: "a stream has no single message: use its Body's Stream"}

// Decode decodes the request into v.
func (in *Inbound) Decode(v any) error {
	switch {
	case in.stream != nil:
		return errStreamBody
	case in.Compressed:
		return in.decompress(v)
	}
	var err error
	if in.method.target.isLight(len(in.Message), v) {
		err = codec.Decode(in.codec(), in.Message, v)
	} else {
		err = codec.DecodeWithin(in.codec(), in.Message, v, in)
	}
	if err != nil {
		return in.badArguments(err)
	}
	return nil
}

// badArguments returns the error of arguments that did not decode.
func (in *Inbound) badArguments(err error) error {
	if e := memoryError(err); e != nil {
		return e
	}
	return refused(tandem.InvalidArgument, "%v", err) // package dispatch adds the name of the method
}

// decompress decodes a compressed request.
func (in *Inbound) decompress(v any) error {
	plain := buffer.Get()
	defer plain.Put()
	limit := int(in.s.env.cfg.Settings.MaxMessage) //nolint:gosec // bounded by memory
	if in.method.target.MaxMessage > 0 {
		limit = in.method.target.MaxMessage
	}
	b, err := budget.Decompress(in, in.compressor(), plain.B, in.Message, limit)
	if err == nil {
		plain.B = b
		err = codec.DecodeWithin(in.codec(), b, v, in)
	}
	if err != nil {
		return in.badArguments(err)
	}
	return nil
}

// Encode encodes the reply.
func (in *Inbound) Encode(v any) error {
	if in.stream != nil {
		return errStreamBody
	}
	if in.apart && !in.OneWay {
		return in.s.encodeApart(in, v)
	}
	return in.encode(v)
}

func (in *Inbound) encode(v any) error {
	if in.Reply == nil {
		in.Reply = buffer.Get()
	}
	b, err := codec.Append(in.codec(), in.Reply.B[:0], v)
	if err != nil {
		return &tandem.Error{Code: tandem.Internal, Message: fmt.Sprintf("result of %s: %v", in.call.Method, err)}
	}
	in.Reply.B = b
	return nil
}

// Stream accepts the stream and returns it; nil if the call is not a stream.
func (in *Inbound) Stream() tandem.MessageStream {
	if in.stream == nil {
		return nil
	}
	in.stream.accept()
	return in.stream
}

// runApart runs the call in its own goroutine once the gate admits it. It copies a
// message that lies in the reader's buffer.
func (s *Session) runApart(in *Inbound) {
	if !s.env.guarding() {
		s.watch()
		s.awaitStart()
	}
	in.apart = true
	in.large = in.Owned != nil
	if !in.large { // the message lies in the reader's buffer
		var e *tandem.Error
		if in.unheld, e = in.holdCopy(len(in.Message)); e != nil {
			s.refuseRun(in, e)
			return
		}
		in.Owned = buffer.Get()
		in.Owned.B = append(in.Owned.B, in.Message...)
	}
	verdict := s.admit(in)
	if verdict == overload.Refuse { // so the session needs no watch: many have nothing but refusals
		return
	}
	s.watch()
	if verdict == overload.Run {
		s.startApart(in)
	}
}

// startApart starts the goroutine of a call that the gate has admitted.
func (s *Session) startApart(in *Inbound) {
	target, large := in.method.target, in.large
	s.starting.Add(1)
	started := s.env.Spawn(func() {
		s.starting.Add(-1)
		s.env.running.Add(1)
		defer s.env.running.Add(-1)
		defer s.flush()
		start := time.Now()
		run := s.admitted(in, start)
		defer func() {
			run.leave(in) // if the handler has ended its goroutine
			run.done()
		}()
		in.Message = in.Owned.Whole()
		in.assembled(large)
		var a answer
		err := in.abandonedError()
		if in.unheld && err == nil {
			err = in.grow(int64(len(in.Message)))
			start = time.Now()
		}
		switch d := in.call.Deadline; {
		case err != nil:
			in.outcome(&a, &in.call, err)
		case d.IsZero() || start.Before(d):
			in.execute(&a)
		default:
			in.tooLate(&a)
		}
		run.Failed = len(a.r.Status) > 0
		run.leave(in)
		s.answer(&a)
		if !large { // a large request says nothing about the method's usual calls
			target.observe(time.Since(start))
		}
	})
	if !started {
		s.starting.Add(-1)
		never := s.admitted(in, time.Now())
		never.done()
	}
}
