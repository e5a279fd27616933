package session

import (
	"context"
	"math"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
)

// doneContext is the part of an [Inbound], which is its handler's context, that is
// needed to wait for its end. The first call of Done or AfterFunc makes it.
type doneContext struct {
	done  chan struct{}
	timer *time.Timer
	leave func() bool // stops the wait for the session's end; one-way calls only
	after map[*afterFunc]struct{}
}

type afterFunc struct{ f func() }

// ending says how a context ended, in less space than an error.
type ending uint8

const (
	running ending = iota
	canceled
	expired
)

func (e ending) err() error {
	switch e {
	case canceled:
		return context.Canceled
	case expired:
		return context.DeadlineExceeded
	}
	return nil
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Deadline returns the call's deadline.
func (in *Inbound) Deadline() (time.Time, bool) {
	return in.call.Deadline, !in.call.Deadline.IsZero()
}

// Value returns the call, its session or the Inbound. Other keys are looked up in the
// connection's context.
func (in *Inbound) Value(key any) any {
	switch key {
	case tandem.ContextKey():
		return &in.call
	case sessionKey{}:
		return in.s
	case inboundKey{}:
		return in
	case waiterKey{}:
		return Waiter(in)
	}
	return in.s.base.Value(key)
}

// Done is closed when the caller cancels, the deadline passes, the connection
// ends, or the handler has returned.
func (in *Inbound) Done() <-chan struct{} {
	in.ctxMu.Lock()
	defer in.ctxMu.Unlock()
	return in.askLocked().done
}

func (in *Inbound) askLocked() *doneContext {
	if in.asked != nil {
		return in.asked
	}
	a := &doneContext{done: closedChan}
	in.asked = a
	if in.ended != running {
		return a
	}
	a.done = make(chan struct{})
	if d := in.call.Deadline; !d.IsZero() {
		a.timer = time.AfterFunc(time.Until(d), func() { in.cancel(expired) })
	}
	if in.OneWay { // the session does not list it any more
		a.leave = context.AfterFunc(in.s.lasting(), func() { in.cancel(canceled) })
	}
	return a
}

// Err returns why Done is closed, or nil. It detects a passed deadline without a timer.
func (in *Inbound) Err() error {
	in.ctxMu.Lock()
	defer in.ctxMu.Unlock()
	switch {
	case in.ended != running:
	case !in.call.Deadline.IsZero() && !time.Now().Before(in.call.Deadline):
		in.endLocked(expired)
	case in.OneWay && in.s.lasting().Err() != nil:
		in.endLocked(canceled)
	}
	return in.ended.err()
}

// AfterFunc runs f in its own goroutine when the context is done. Package
// context uses it for derived contexts, which then need no goroutine.
func (in *Inbound) AfterFunc(f func()) (stop func() bool) {
	in.ctxMu.Lock()
	defer in.ctxMu.Unlock()
	if in.ended != running {
		go f()
		return func() bool { return false }
	}
	asked, a := in.askLocked(), &afterFunc{f}
	if asked.after == nil {
		asked.after = map[*afterFunc]struct{}{}
	}
	asked.after[a] = struct{}{}
	return func() bool {
		in.ctxMu.Lock()
		defer in.ctxMu.Unlock()
		_, waiting := asked.after[a]
		delete(asked.after, a)
		return waiting
	}
}

// cancel ends the context. asked reports whether Done or AfterFunc was called, so
// that the context may still be held.
func (in *Inbound) cancel(how ending) (asked bool) {
	in.ctxMu.Lock()
	defer in.ctxMu.Unlock()
	if in.ended == running {
		in.endLocked(how)
	}
	return in.asked != nil
}

func (in *Inbound) endLocked(how ending) {
	in.ended = how
	if in.asked != nil {
		in.asked.tell()
	}
}

// tell closes done and starts the functions of AfterFunc.
func (a *doneContext) tell() {
	close(a.done)
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.leave != nil {
		a.leave()
	}
	for w := range a.after {
		go w.f()
	}
	a.after = nil
}

type (
	sessionKey struct{}
	inboundKey struct{}
)

// Enter returns a Func that records that a call runs method. No interceptor can end such a call
// as not executed, for instance with the error of another call. That is taken back if method
// itself says that it did not run, as when the arguments don't decode. A call with [WithRefusal] does not reach method and ends with that error.
func Enter(method tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		switch v := ctx.Value(inboundKey{}).(type) {
		case *Inbound:
			v.enter(1)
			err := method(ctx, call)
			if err != nil && !tandem.MayHaveExecuted(err) {
				v.enter(-1)
			}
			return err
		case *tandem.Error:
			return v
		}
		return method(ctx, call)
	}
}

// enter adds n to the number of runs of the method. At the largest number it stays, so that it can't
// overflow to one that says that the method has not run.
func (in *Inbound) enter(n int8) {
	in.ctxMu.Lock()
	if in.entered < math.MaxInt8 {
		in.entered += n
	}
	in.ctxMu.Unlock()
}

// WithRefusal is [dispatch.WithRefusal] for methods of [Enter].
func WithRefusal(ctx context.Context, why *tandem.Error) context.Context {
	return context.WithValue(dispatch.WithRefusal(ctx, why), inboundKey{}, why)
}

func (in *Inbound) hasEntered() bool {
	in.ctxMu.Lock()
	defer in.ctxMu.Unlock()
	return in.entered > 0
}

// FromContext returns the session on which a handler's call came, or nil.
func FromContext(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}
