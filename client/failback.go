package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/pool"
	"github.com/tandem-rpc/tandem/internal/session"
)

// backlog counts the calls that wait to be tried again. Each waits in a goroutine of its own:
// there are few.
type backlog struct {
	mu      sync.Mutex
	closed  bool
	waiting int
	left    int // calls that were not made when the client was closed
	wg      sync.WaitGroup
}

// postponed is a call that failed.
type postponed struct {
	out     *call.Outgoing
	next    tandem.Func
	allowed time.Duration // for each attempt
	err     error         // of the last attempt
	ran     bool          // an attempt may have been executed
}

// failback queues a call that failed and may be tried again, and returns nil to its caller. The
// error of any other call is returned.
func (c *Client) failback(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		allowed := defaultTimeout
		if !call.Deadline.IsZero() {
			allowed = time.Until(call.Deadline)
		}
		err := next(ctx, call)
		if err == nil {
			c.budget.Call()
			return nil
		}
		o, ok := outgoing(call)
		if !ok || call.Kind == tandem.Streaming || !retryableLater(call, err) || errors.Is(ctx.Err(), context.Canceled) { // the caller has given up
			return err
		}
		later, failed := o.Detach(call)
		if failed != nil {
			return failed
		}
		p := &postponed{out: later, next: next, allowed: allowed, err: err, ran: tandem.MayHaveExecuted(err)}
		if full := c.postpone(p); full != nil {
			return full
		}
		o.Forgo()
		return nil
	}
}

// retryableLater reports whether the call may succeed later. Unlike a retry, an attempt in the
// background has a deadline of its own, so DeadlineExceeded does not prevent it.
func retryableLater(call *tandem.Call, err error) bool {
	e := tandem.AsError(err)
	return retryable(call, err) ||
		e.Code == tandem.DeadlineExceeded && e.RetryAfter >= 0 && (call.Idempotent || !tandem.MayHaveExecuted(err))
}

// postpone queues the call, or returns an error that says why it does not.
func (c *Client) postpone(p *postponed) error {
	b := &c.backlog
	b.mu.Lock()
	fits := !b.closed && b.waiting < c.opts.failbackQueue
	if fits {
		b.waiting++
		b.wg.Go(func() { c.tryLater(p) })
	}
	b.mu.Unlock()
	if fits {
		return nil
	}
	e := *tandem.AsError(p.err)
	e.Message += fmt.Sprintf("; not queued: %d calls are waiting to be tried again, or the client is closed", c.opts.failbackQueue)
	p.err = &e
	c.giveUp(p)
	return &e
}

// tryLater makes the further attempts.
func (c *Client) tryLater(p *postponed) {
	defer func() {
		c.backlog.mu.Lock()
		c.backlog.waiting--
		c.backlog.mu.Unlock()
	}()
	for n := range c.opts.failbackTries {
		if !pool.Sleep(c.life.Context(), max(c.failbackPause(n), pushback(p.err))) {
			break
		}
		if !c.budget.Take(time.Now()) {
			continue
		}
		if c.attemptLater(p, n+1); p.err == nil {
			p.out.Release()
			return
		}
		if !retryableLater(&p.out.Call, p.err) {
			break
		}
	}
	if c.life.Context().Err() != nil {
		c.backlog.mu.Lock()
		c.backlog.left++
		c.backlog.mu.Unlock()
	}
	c.giveUp(p)
}

func (c *Client) attemptLater(p *postponed, n int) {
	attempt := p.out.Call.Clone()
	attempt.Attempt += n
	attempt.Deadline = time.Now().Add(p.allowed)
	err := p.next(c.life.Context(), attempt)
	attempt.End(err)
	p.out.Call.Trailer, p.out.Call.Peer, p.err = attempt.Trailer, attempt.Peer, err
	p.ran = p.ran || err != nil && tandem.MayHaveExecuted(err)
}

const mostFailbackPause = 5 * time.Minute

// failbackPause doubles with each attempt, and is up to a half shorter or
// longer, so that calls that failed together are not retried together.
func (c *Client) failbackPause(n int) time.Duration {
	d := mostFailbackPause
	if n < 20 {
		d = min(d, c.opts.failbackPause<<n)
	}
	return d/2 + rand.N(d)
}

// giveUp logs a call that is not tried again, passes it to the function of
// [WithFailbackGiveUp], and releases it.
func (c *Client) giveUp(p *postponed) {
	call := &p.out.Call
	c.log().Warn("call given up, which Failback was to make", "method", call.Method, "error", p.err)
	if c.opts.giveUp != nil {
		c.opts.giveUp(call, noting(p.err, p.ran))
	}
	p.out.Release()
}

// close waits, at most that long, until the goroutines of all queued calls have ended. The
// client's context must have ended. It returns an error that says how many calls were not made.
func (b *backlog) close(wait time.Duration) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	ended := session.WaitFor(&b.wg, wait)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ended {
		return tandem.Errorf(tandem.DeadlineExceeded, "Failback: %d calls did not end within %v: an attempt runs, or the function of WithFailbackGiveUp", b.waiting, wait)
	}
	if b.left > 0 {
		return tandem.Errorf(tandem.Canceled, "Failback: %d calls that had failed were not tried again: the client is closed", b.left)
	}
	return nil
}
