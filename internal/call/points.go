package call

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
)

// Points are what a caller's plugins want to know of a call. None panics.
type Points interface {
	// AtMessages says whether AfterRequest and BeforeResponseHeader do anything.
	AtMessages() bool
	// BeforeRequest comes when the instance is chosen and nothing is written.
	BeforeRequest(ctx context.Context, call *tandem.Call) error
	// AfterRequest comes when the request is in the queue to be written, or can't be.
	AfterRequest(ctx context.Context, call *tandem.Call, err error)
	// BeforeResponseHeader comes when there is an answer.
	BeforeResponseHeader(ctx context.Context, call *tandem.Call)
	// AfterResponseHeader comes when it is known how the attempt went.
	AfterResponseHeader(ctx context.Context, call *tandem.Call, err error) error
	// BeforeResponseBody and AfterResponseBody come round the decoding.
	BeforeResponseBody(ctx context.Context, call *tandem.Call) error
	AfterResponseBody(ctx context.Context, call *tandem.Call, reply any, err error) error
}

// sighting is what the points in the middle of an attempt are told.
type sighting struct {
	ctx    context.Context //nolint:containedctx // the call's
	call   *tandem.Call
	points Points
}

// beforeRequest and afterHeader are the points at an attempt's begin and end.
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

// between makes an attempt over another protocol between its points. Of what is on its
// way there nobody tells: the points in the middle come when the attempt is over, or a
// stream's request is sent.
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

// Sent and Answered make it a [session.Trace].
func (g *sighting) Sent(err error) { g.points.AfterRequest(g.ctx, g.call, err) }

func (g *sighting) Answered() { g.points.BeforeResponseHeader(g.ctx, g.call) }

// decodeReply decodes the answer between the points.
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

// refused is the error of an attempt that has not been made.
func refused(code tandem.Code, format string, args ...any) *tandem.Error {
	return &tandem.Error{Code: code, Message: fmt.Sprintf(format, args...), NotExecuted: true}
}
