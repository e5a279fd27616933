package client

import (
	"context"
	"errors"
	"time"

	"github.com/tandem-rpc/tandem"
)

// errAttemptTimeout is why an attempt failed that took longer than attempts may.
var errAttemptTimeout = errors.New("attempt timed out")

// timed bounds each attempt by the time that attempts have. The attempt's copy
// of the deadline travels with the request, so the handler's context ends then,
// too.
func (c *Client) timed(ctx context.Context, call *tandem.Call, next tandem.Func) error {
	d := call.AttemptTimeout
	if d == 0 {
		d = c.ruleOf(call).attemptTimeout
	}
	if d <= 0 || call.Kind == tandem.Streaming {
		return next(ctx, call)
	}
	return attemptWithin(ctx, call, d, next)
}

func attemptWithin(ctx context.Context, call *tandem.Call, d time.Duration, next tandem.Func) error {
	whole, end := call.Deadline, time.Now().Add(d)
	if !whole.IsZero() && !end.Before(whole) {
		return next(ctx, call)
	}
	call.Deadline = end
	err := next(ctx, call)
	call.Deadline = whole
	if tandem.CodeOf(err) != tandem.DeadlineExceeded || ctx.Err() != nil || time.Now().Before(end) {
		return err
	}
	e := tandem.Errorf(tandem.DeadlineExceeded, "%w: no answer within %v", errAttemptTimeout, d)
	e.NotExecuted = !tandem.MayHaveExecuted(err)
	return e
}
