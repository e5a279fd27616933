package failmode

import (
	"context"
	"errors"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/pool"
	"github.com/tandem-rpc/tandem/internal/session"
)

// retry makes attempts, each on its own copy of the call, until one succeeds, an error may not
// be retried, or attempts, time or budget run out. Before each retry it calls the function again,
// which prepares the retry, or returns false to stop. elsewhere says that retries go to other
// instances: then an attempt at a repeatable call need not wait for a suspect instance.
func (m *Modes) retry(next tandem.Func, elsewhere bool, prepare func(ctx context.Context, call *tandem.Call, failures int) bool) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		for failures, ran := 0, false; ; failures++ {
			attempt := nextAttempt(call, failures, ran)
			if elsewhere && repeatable(call) {
				m.letMove(ctx, call, failures)
			}
			err := next(ctx, attempt)
			call.Trailer, call.Peer = attempt.Trailer, attempt.Peer
			if err == nil && call.Kind == tandem.Streaming {
				m.cfg.Budget.Call()
				call.OnEnd(func(err error) {
					attempt.Trailer = call.Trailer
					attempt.End(err)
				})
				return nil
			}
			attempt.End(err)
			if err == nil {
				m.cfg.Budget.Call()
				return nil
			}
			concluded(attempt, err)
			ran = ran || tandem.MayHaveExecuted(err)
			if !retryable(call, err) || expired(ctx, call) || servesRetry(ctx) {
				return noting(err, ran)
			}
			if giveUp := m.takeRetry(call, err, failures); giveUp != nil {
				return noting(giveUp, ran)
			}
			if !pool.Sleep(ctx, pushback(err)) || !prepare(ctx, call, failures) {
				return noting(err, ran)
			}
		}
	}
}

// nextAttempt returns the call's copy for the attempt after so many failures. ran says that one of
// those may have been executed.
func nextAttempt(call *tandem.Call, failures int, ran bool) *tandem.Call {
	attempt := call.Clone()
	attempt.Attempt = call.Attempt + failures
	if ran {
		again(attempt)
	}
	return attempt
}

// letMove sets whether the next attempt may be given up while its instance is suspect: only if
// another attempt would follow.
func (m *Modes) letMove(ctx context.Context, call *tandem.Call, failures int) {
	o, ok := outgoing(call)
	switch {
	case !ok:
	case call.Kind == tandem.Unary && call.Pin == "" && failures < m.cfg.Pool.RuleOf(call).Retries && !servesRetry(ctx):
		o.MayMove(call)
	default:
		o.MayMove(nil)
	}
}

// noting returns err, the error of the last attempt, as the error of the call. ran says that an
// attempt may have been executed: then NotExecuted is false.
func noting(err error, ran bool) error {
	e := tandem.AsError(err)
	if !ran || !e.NotExecuted {
		return err
	}
	of := *e
	of.NotExecuted = false
	return &of
}

// takeRetry takes the next attempt from the budget. If that attempt may not be made, it returns the
// error that the call ends with.
func (m *Modes) takeRetry(call *tandem.Call, err error, failures int) error {
	retries := m.cfg.Pool.RuleOf(call).Retries
	switch pause := pushback(err); {
	case retries == 0:
		return err
	case failures >= retries:
		return doNotRetry(err, "")
	case errors.Is(err, session.ErrMoved): // Move has taken it from the budget
	case pause > 0 && !hasTime(call, pause):
		return doNotRetry(err, "; not tried again: the server asks to wait longer than the deadline allows")
	case !m.cfg.Budget.Take(time.Now()):
		return doNotRetry(err, "; not tried again: the retry budget is spent")
	}
	return nil
}

// doNotRetry marks an error with DoNotRetry, as this client's attempts have failed. A handler
// that returns the error passes the mark on to its caller, which then does not retry either: in
// a chain of services, only the last one that can retry does.
func doNotRetry(err error, why string) error {
	e := tandem.AsError(err).WithRetryAfter(tandem.DoNotRetry)
	e.Message += why
	return e
}

// servesRetry reports whether the call is made by a handler that itself serves a retry: then
// only that handler's caller retries.
func servesRetry(ctx context.Context) bool {
	served := tandem.FromContext(ctx)
	return served != nil && served.Attempt > 0
}

// pushback returns how long the server asks to wait before a retry; 0 if it does not ask.
func pushback(err error) time.Duration { return max(0, tandem.AsError(err).RetryAfter) }

// retryable reports whether a retry may succeed and is safe: the call is repeatable, or is known not
// to have run.
func retryable(call *tandem.Call, err error) bool {
	e := tandem.AsError(err)
	switch {
	case e.RetryAfter < 0:
		return false
	case e.Code == tandem.Unavailable, e.Code == tandem.ResourceExhausted, errors.Is(err, errAttemptTimeout):
		return repeatable(call) || !tandem.MayHaveExecuted(err)
	}
	return false
}

// repeatable reports whether the call may be retried although an attempt may have run: a second
// execution does no harm, or the server runs the call at most once for its key.
func repeatable(call *tandem.Call) bool { return call.Idempotent || call.Keyed }

// again says in an attempt at a keyed call that an earlier attempt may have run, or that one
// runs in parallel. The attempt must have metadata of its own.
func again(attempt *tandem.Call) {
	if attempt.Keyed && !attempt.HasAttempts(tandem.AttemptsAgain) {
		attempt.Metadata.Add(tandem.AttemptsKey, tandem.AttemptsAgain)
	}
}

// hasTime reports whether the call has more time left than pause.
func hasTime(call *tandem.Call, pause time.Duration) bool {
	return call.Deadline.IsZero() || time.Until(call.Deadline) > pause
}

func expired(ctx context.Context, call *tandem.Call) bool {
	return ctx.Err() != nil || !call.Deadline.IsZero() && !time.Now().Before(call.Deadline)
}
