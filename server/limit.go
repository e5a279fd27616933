package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/wire"
)

// limiter bounds how many calls run and how many wait.
type limiter struct {
	slots   chan struct{}
	waiting atomic.Int64
	refused atomic.Uint64
	queue   int64
	what    string
	took    atomic.Int64 // ns; moving average of how long calls run; 0 before the first has returned
}

func newLimiter(calls, queue int, what string) *limiter {
	return &limiter{slots: make(chan struct{}, calls), queue: int64(queue), what: what}
}

// used returns how much of the limit is taken, in percent.
func (l *limiter) used() uint8 {
	return uint8(100 * len(l.slots) / cap(l.slots)) //nolint:gosec // at most 100
}

// acquire takes a slot, waiting in the queue until ctx ends. A refused call
// has not executed.
func (l *limiter) acquire(ctx context.Context, g *gauge) error {
	if err := ctx.Err(); err != nil {
		return notStarted(err)
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	if l.waiting.Add(1) > l.queue {
		l.waiting.Add(-1)
		l.refused.Add(1)
		return &tandem.Error{
			Code: tandem.ResourceExhausted, NotExecuted: true, RetryAfter: l.backlog(),
			Message: fmt.Sprintf("%s: %d calls are running and %d waiting, which is the limit", l.what, cap(l.slots), l.queue),
		}
	}
	g.queued.Add(1)
	waiter, _ := ctx.Value(session.WaiterKey()).(session.Waiter)
	if waiter != nil {
		waiter.AwaitSlot(true)
	}
	defer func() {
		l.waiting.Add(-1)
		g.queued.Add(-1)
		if waiter != nil {
			waiter.AwaitSlot(false)
		}
	}()
	select {
	case l.slots <- struct{}{}:
		if err := ctx.Err(); err != nil { // both cases were ready
			<-l.slots
			return notStarted(err)
		}
		return nil
	case <-ctx.Done():
		return notStarted(ctx.Err())
	}
}

func notStarted(cause error) error {
	e := tandem.AsError(cause)
	e.NotExecuted = true
	return e
}

// longestPause bounds the RetryAfter of a refused call.
const longestPause = time.Second

// backlog estimates how long the calls that run and wait will take: a call that is retried
// sooner finds the limiter full again. It is 0 before a call has returned.
func (l *limiter) backlog() time.Duration {
	took := l.took.Load()
	if took == 0 {
		return 0
	}
	turns := 1 + l.queue/int64(cap(l.slots))
	return time.Duration(min(max(took*turns, int64(time.Millisecond)), int64(longestPause)))
}

// observe moves the average by an eighth of the difference.
func (l *limiter) observe(took time.Duration) {
	old := l.took.Load()
	if old == 0 {
		l.took.Store(max(1, int64(took)))
		return
	}
	l.took.Store(max(1, old+(int64(took)-old)/8)) // a lost race loses one sample of many
}

func limit(l *limiter, g *gauge) tandem.Interceptor {
	return func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if err := l.acquire(ctx, g); err != nil {
				return err
			}
			began := time.Now()
			defer func() {
				<-l.slots
				l.observe(time.Since(began))
			}()
			return next(ctx, call)
		}
	}
}

// gauge holds what load reports are computed from.
type gauge struct {
	queued atomic.Int64
	limit  *limiter       // the limiter of the whole server; nil for none
	gate   *overload.Gate // nil for none
}

func (g *gauge) report(running int64) wire.Load {
	queued := g.queued.Load()
	l := wire.Load{InFlight: uint32(max(0, running-queued)), Queued: uint32(queued)} //nolint:gosec // bounded by limits
	if g.gate != nil {
		l.Queued += uint32(g.gate.Waiting()) //nolint:gosec // as above
	}
	if g.limit != nil {
		l.Utilization = g.limit.used()
	}
	return l
}
