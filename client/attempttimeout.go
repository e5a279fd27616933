package client

import (
	"context"
	"errors"
	"time"

	"github.com/tandem-rpc/tandem"
)

// errAttemptTimeout is the error of an attempt that took longer than its timeout.
var errAttemptTimeout = errors.New("attempt timed out")

// attemptTime returns how long each attempt at the call may take; 0 or less for no bound.
func (c *Client) attemptTime(call *tandem.Call) time.Duration {
	switch {
	case call.Kind == tandem.Streaming:
		return 0
	case call.AttemptTimeout != 0:
		return call.AttemptTimeout
	}
	return c.pool.RuleOf(call).AttemptTimeout
}

// attemptWithin bounds an attempt to d. The attempt's deadline is sent with the request, so the
// handler's context ends then, too.
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
