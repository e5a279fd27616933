package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
)

// The fail modes, as [WithFailMode] and [FailMode] take them.
const (
	// Failfast returns the first error.
	Failfast = tandem.Failfast
	// Failover tries another instance.
	Failover = tandem.Failover
	// Failtry tries the same instance again.
	Failtry = tandem.Failtry

	failModes = tandem.Failtry + 1
)

func (c *Client) failMode(m tandem.FailMode) tandem.Interceptor {
	switch m {
	case Failover:
		return c.failover
	case Failtry:
		return c.failtry
	}
	return failfast
}

// failfast makes one attempt.
func failfast(next tandem.Func) tandem.Func { return next }

// elsewhere sends a call that a draining server has refused, or that never left
// us, to another instance, at no cost and at most once an instance: nothing
// ran, and nobody is overloaded. It is part of every fail mode.
func elsewhere(next tandem.Func) tandem.Func {
	const most = 8
	return func(ctx context.Context, call *tandem.Call) error {
		err := next(ctx, call)
		if err == nil {
			return nil
		}
		for range most {
			id := call.Peer.Instance
			if err == nil || call.Pin != "" || slices.Contains(call.Exclude, id) || !errors.Is(err, session.ErrDraining) {
				return err
			}
			call.Exclude = append(call.Exclude, id)
			err = next(ctx, call)
		}
		return err
	}
}

// retry makes attempts, each on its own copy of the call, until one succeeds,
// an error may not be retried, or attempts, time or budget run out. Between
// two, again prepares the next.
func (c *Client) retry(next tandem.Func, again func(ctx context.Context, call *tandem.Call, failures int) bool) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		c.budget.Call()
		for failures := 0; ; failures++ {
			attempt := call.Clone()
			attempt.Attempt = failures
			err := next(ctx, attempt)
			call.Trailer, call.Peer = attempt.Trailer, attempt.Peer
			if err == nil && call.Kind == tandem.Streaming {
				call.OnEnd(func(err error) {
					attempt.Trailer = call.Trailer
					attempt.End(err)
				})
				return nil
			}
			attempt.End(err)
			if err == nil {
				return nil
			}
			if failures == c.opts.retries || !retryable(call, err) || expired(ctx, call) {
				return err
			}
			if !c.budget.Take(time.Now()) {
				return unaffordable(err)
			}
			if !again(ctx, call, failures) {
				return err
			}
		}
	}
}

// unaffordable says why there was no further attempt.
func unaffordable(err error) error {
	e := *tandem.AsError(err)
	e.Message += "; not tried again: the retry budget is spent"
	return &e
}

// retryable reports whether another attempt may help and can do no harm.
func retryable(call *tandem.Call, err error) bool {
	switch tandem.CodeOf(err) {
	case tandem.Unavailable, tandem.ResourceExhausted:
		return call.Idempotent || !tandem.MayHaveExecuted(err)
	}
	return false
}

func expired(ctx context.Context, call *tandem.Call) bool {
	return ctx.Err() != nil || !call.Deadline.IsZero() && !time.Now().Before(call.Deadline)
}
