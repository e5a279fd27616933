package failmode

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
	allowed time.Duration // timeout of each further attempt
	err     error         // error of the last attempt
	ran     bool          // an attempt may have been executed
}

// failback queues a call that failed and may be tried again, and returns nil to its caller. The
// error of any other call is returned.
func (m *Modes) failback(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		allowed := m.cfg.FailbackTimeout
		if !call.Deadline.IsZero() {
			allowed = time.Until(call.Deadline)
		}
		err := next(ctx, call)
		if err == nil {
			m.cfg.Budget.Call()
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
		if full := m.postpone(p); full != nil {
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
		e.Code == tandem.DeadlineExceeded && e.RetryAfter >= 0 && (repeatable(call) || !tandem.MayHaveExecuted(err))
}

// postpone queues the call, or returns an error that says why it does not.
func (m *Modes) postpone(p *postponed) error {
	b := &m.backlog
	b.mu.Lock()
	fits := !b.closed && b.waiting < m.cfg.FailbackQueue
	if fits {
		b.waiting++
		b.wg.Go(func() { m.tryLater(p) })
	}
	b.mu.Unlock()
	if fits {
		return nil
	}
	e := *tandem.AsError(p.err)
	e.Message += fmt.Sprintf("; not queued: %d calls are waiting to be tried again, or the client is closed", m.cfg.FailbackQueue)
	p.err = &e
	m.giveUp(p)
	return &e
}

// tryLater makes the further attempts.
func (m *Modes) tryLater(p *postponed) {
	defer func() {
		m.backlog.mu.Lock()
		m.backlog.waiting--
		m.backlog.mu.Unlock()
	}()
	for n := range m.cfg.FailbackTries {
		if !pool.Sleep(m.cfg.Life.Context(), max(m.failbackPause(n), pushback(p.err))) {
			break
		}
		if !m.cfg.Budget.Take(time.Now()) {
			continue
		}
		if m.attemptLater(p, n+1); p.err == nil {
			p.out.Release()
			return
		}
		if !retryableLater(&p.out.Call, p.err) {
			break
		}
	}
	if m.cfg.Life.Context().Err() != nil {
		m.backlog.mu.Lock()
		m.backlog.left++
		m.backlog.mu.Unlock()
	}
	m.giveUp(p)
}

func (m *Modes) attemptLater(p *postponed, n int) {
	attempt := p.out.Call.Clone()
	attempt.Attempt += n
	attempt.Deadline = time.Now().Add(p.allowed)
	if p.ran {
		again(attempt)
	}
	err := p.next(m.cfg.Life.Context(), attempt)
	attempt.End(err)
	p.out.Call.Trailer, p.out.Call.Peer, p.err = attempt.Trailer, attempt.Peer, err
	p.ran = p.ran || err != nil && tandem.MayHaveExecuted(err)
}

const mostFailbackPause = 5 * time.Minute

// failbackPause doubles with each attempt, and is up to a half shorter or
// longer, so that calls that failed together are not retried together.
func (m *Modes) failbackPause(n int) time.Duration {
	d := mostFailbackPause
	if n < 20 {
		d = min(d, m.cfg.FailbackPause<<n)
	}
	return d/2 + rand.N(d)
}

// giveUp logs a call that is not tried again, passes it to GiveUp, and releases it.
func (m *Modes) giveUp(p *postponed) {
	call := &p.out.Call
	m.cfg.Log.Warn("call given up, which Failback was to make", "method", call.Method, "error", p.err)
	if m.cfg.GiveUp != nil {
		m.cfg.GiveUp(call, noting(p.err, p.ran))
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
		return tandem.Errorf(tandem.DeadlineExceeded, "Failback: %d calls did not end within %v: an attempt runs, or GiveUp", b.waiting, wait)
	}
	if b.left > 0 {
		return tandem.Errorf(tandem.Canceled, "Failback: %d calls that had failed were not tried again: the client is closed", b.left)
	}
	return nil
}
