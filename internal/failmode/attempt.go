package failmode

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
)

// errAttemptTimeout is the error of an attempt that took longer than its timeout.
var errAttemptTimeout = errors.New("attempt timed out")

// attemptTime returns how long each attempt at the call may take; 0 or less for no bound.
func (m *Modes) attemptTime(call *tandem.Call) time.Duration {
	switch {
	case call.Kind == tandem.Streaming:
		return 0
	case call.AttemptTimeout != 0:
		return call.AttemptTimeout
	}
	return m.cfg.Pool.RuleOf(call).AttemptTimeout
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

// Attempt is part of every fail mode: it applies the attempt timeout, and makes an
// attempt that was not sent at another instance. It is one Func instead of two nested ones, to
// keep the stack of a waiting caller small: the garbage collector scans it. bare says that next
// is only pool.Pool.Attempt, which is then called directly.
func (m *Modes) Attempt(next tandem.Func, bare bool) tandem.Func {
	const most = 8 // limit of other instances
	return func(ctx context.Context, call *tandem.Call) (err error) {
		for n := 0; ; n++ {
			switch d := m.attemptTime(call); {
			case d > 0:
				err = attemptWithin(ctx, call, d, next)
			case bare:
				err = m.cfg.Pool.Attempt(ctx, call)
			default:
				err = next(ctx, call)
			}
			if err == nil || n == most || !elsewhere(call, err) {
				return err
			}
		}
	}
}

// elsewhere reports whether a failed attempt is made at another instance without the retry
// budget: a draining server refused it, or it was not sent, so nothing ran and no server is
// overloaded. It excludes the instance, so each is tried at most once.
func elsewhere(call *tandem.Call, err error) bool {
	id := call.Peer.Instance
	if call.Pin != "" || slices.Contains(call.Exclude, id) || !errors.Is(err, session.ErrDraining) {
		return false
	}
	call.Exclude = append(call.Exclude, id)
	return true
}
