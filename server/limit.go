package server

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// limiter lets so many calls run and so many wait.
type limiter struct {
	slots   chan struct{}
	waiting atomic.Int64
	queue   int64
	what    string
}

func newLimiter(calls, queue int, what string) *limiter {
	return &limiter{slots: make(chan struct{}, calls), queue: int64(queue), what: what}
}

// used says how much of the limit is taken, in percent.
func (l *limiter) used() uint8 {
	return uint8(100 * len(l.slots) / cap(l.slots)) //nolint:gosec // at most 100
}

// acquire takes a slot, waiting in the queue until ctx ends. A refused call
// has not executed.
func (l *limiter) acquire(ctx context.Context, g *gauge) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	if l.waiting.Add(1) > l.queue {
		l.waiting.Add(-1)
		return &tandem.Error{
			Code: tandem.ResourceExhausted, NotExecuted: true,
			Message: fmt.Sprintf("%s: %d calls are running and %d waiting, which is the limit", l.what, cap(l.slots), l.queue),
		}
	}
	g.queued.Add(1)
	defer func() {
		l.waiting.Add(-1)
		g.queued.Add(-1)
	}()
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		e := tandem.AsError(ctx.Err())
		e.NotExecuted = true
		return e
	}
}

func limit(l *limiter, g *gauge) tandem.Interceptor {
	return func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if err := l.acquire(ctx, g); err != nil {
				return err
			}
			defer func() { <-l.slots }()
			return next(ctx, call)
		}
	}
}
