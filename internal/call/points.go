package call

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
)

// Points are the points of a client's plugins along a call. No method panics.
type Points interface {
	// AtMessages reports whether AfterRequest or BeforeResponseHeader do anything.
	AtMessages() bool
	// BeforeRequest is called when the instance is chosen and nothing is written.
	BeforeRequest(ctx context.Context, call *tandem.Call) error
	// AfterRequest is called when the request is in the write queue, or can't be written.
	AfterRequest(ctx context.Context, call *tandem.Call, err error)
	// BeforeResponseHeader is called when the response has arrived.
	BeforeResponseHeader(ctx context.Context, call *tandem.Call)
	// AfterResponseHeader is called when the outcome of the attempt is known.
	AfterResponseHeader(ctx context.Context, call *tandem.Call, err error) error
	// BeforeResponseBody and AfterResponseBody are called round the decoding.
	BeforeResponseBody(ctx context.Context, call *tandem.Call) error
	AfterResponseBody(ctx context.Context, call *tandem.Call, reply any, err error) error
}

// tracedAttempt is a [session.Trace] that calls the points of an attempt.
type tracedAttempt struct {
	ctx    context.Context //nolint:containedctx // the call's
	call   *tandem.Call
	points Points
}

// beforeRequest and afterHeader are the points at the begin and the end of an attempt.
func (o *Outgoing) beforeRequest(ctx context.Context, call *tandem.Call) error {
	if o.Points == nil {
		return nil
	}
	return o.Points.BeforeRequest(ctx, call)
}

func (o *Outgoing) afterHeader(ctx context.Context, call *tandem.Call, err error) error {
	if o.Points == nil || call.Kind == tandem.OneWay {
		return err
	}
	return o.Points.AfterResponseHeader(ctx, call, err)
}

// between makes an attempt over another protocol between its points. Such a connection does
// not report when the request has been written, so the points in the middle are called when the
// attempt is over, or the request of a stream has been sent.
func (o *Outgoing) between(ctx context.Context, call *tandem.Call, attempt func() error) error {
	if o.Points == nil {
		return attempt()
	}
	if err := o.beforeRequest(ctx, call); err != nil {
		return err
	}
	err := attempt()
	unsent, answered := err, err == nil
	if e := tandem.AsError(err); e != nil && !e.NotExecuted {
		unsent, answered = nil, e.Remote
	}
	o.Points.AfterRequest(ctx, call, unsent)
	if answered && call.Kind != tandem.OneWay {
		o.Points.BeforeResponseHeader(ctx, call)
	}
	return o.afterHeader(ctx, call, err)
}

// Sent and Answered implement [session.Trace].
func (g *tracedAttempt) Sent(err error) { g.points.AfterRequest(g.ctx, g.call, err) }

func (g *tracedAttempt) Answered() { g.points.BeforeResponseHeader(g.ctx, g.call) }

// decodeReply decodes the reply between the points.
func (o *Outgoing) decodeReply(ctx context.Context, reply any) error {
	if o.Points == nil {
		return o.Decode(reply)
	}
	if err := o.Points.BeforeResponseBody(ctx, &o.Call); err != nil {
		return err
	}
	err := o.Decode(reply)
	return o.Points.AfterResponseBody(ctx, &o.Call, reply, err)
}

// refused returns the error of an attempt that has not been made.
func refused(code tandem.Code, format string, args ...any) *tandem.Error {
	return &tandem.Error{Code: code, Message: fmt.Sprintf(format, args...), NotExecuted: true}
}
