package call

import (
	"context"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/internal/session"
)

// OpenedStream is a stream that this side has opened, over tandem's protocol or another.
type OpenedStream interface {
	tandem.MessageStream
	// Trailer returns the metadata of the final response; valid once the stream is over.
	Trailer() tandem.Metadata
	Abort(cause error) // ends it from this side
	IsOver() bool
	Outcome() error // the error that it ended with, or nil
}

// callStream is the stream that a caller gets. It ends the call before the caller learns that
// the stream has ended, so that OnEnd functions have run and the trailer is set by then.
type callStream struct {
	OpenedStream

	call   *tandem.Call
	points *points.Attempts // nil for none
	once   sync.Once
}

// OpenWith sends a stream's request by f and returns the stream. The call ends with the
// stream, or now if the stream can't be opened.
func (*Caller) OpenWith(ctx context.Context, o *Outgoing, f tandem.Func) (tandem.MessageStream, error) {
	st, err := o.open(ctx, f)
	if err != nil {
		o.Call.End(err)
		return nil, tandem.AsError(err)
	}
	cs := &callStream{OpenedStream: st, call: &o.Call, points: o.Points}
	context.AfterFunc(st.Context(), cs.end)
	if o.env.Checker() != nil && o.Call.Codec == session.ProtoCodec {
		return &checkedStream{callStream: cs, checker: o.env.Checker()}, nil
	}
	return cs, nil
}

func (o *Outgoing) open(ctx context.Context, f tandem.Func) (OpenedStream, error) {
	if o.env.Codec(o.Call.Codec) == nil {
		return nil, noCodec(o.Call.Codec)
	}
	err := f(ctx, &o.Call)
	st := o.opened()
	switch {
	case err == nil && st == nil:
		err = &tandem.Error{Code: tandem.Internal, Message: "an interceptor returned nil without opening the stream: return what next returns"}
	case err != nil && st != nil: // an interceptor returned an error after the stream was opened
		_ = st.Close()
	}
	return st, err
}

// RecvMsg decodes the next message into v.
func (cs *callStream) RecvMsg(v any) error {
	return cs.points.Receive(cs.Context(), cs.call, v, cs.receive)
}

func (cs *callStream) receive(v any) error {
	err := cs.OpenedStream.RecvMsg(v)
	if err != nil && cs.IsOver() { // and not just a message that does not decode
		cs.end()
	}
	return err
}

// end ends the call, once. Concurrent calls of end wait: one may be the caller's, which must
// not learn of the end before.
func (cs *callStream) end() {
	cs.once.Do(func() {
		cs.Abort(context.Cause(cs.Context())) // the context may have ended first
		cs.call.Trailer = cs.Trailer()
		cs.call.End(cs.Outcome())
	})
}
