package session

import (
	"context"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
)

var errDeadline = context.DeadlineExceeded

// callContext is the context of a handler, part of its [Inbound]. Nothing is
// made for it until somebody asks: the channel and the deadline's timer come
// with the first Done.
type callContext struct {
	base context.Context // values of the connection and the server

	mu    sync.Mutex
	err   error
	done  chan struct{}
	timer *time.Timer
	after map[*afterFunc]struct{}
}

type afterFunc struct{ f func() }

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Deadline is the call's: part of context.Context.
func (in *Inbound) Deadline() (time.Time, bool) {
	return in.call.Deadline, !in.call.Deadline.IsZero()
}

// Value finds the call itself, then asks the connection's context.
func (in *Inbound) Value(key any) any {
	switch key {
	case tandem.ContextKey():
		return &in.call
	case sessionKey{}:
		return in.s
	}
	return in.ctx.base.Value(key)
}

// Done is closed when the caller cancels, the deadline passes, the connection
// ends, or the handler has returned.
func (in *Inbound) Done() <-chan struct{} {
	c := &in.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return c.done
	}
	if c.err != nil {
		c.done = closedChan
		return c.done
	}
	c.done = make(chan struct{})
	if d := in.call.Deadline; !d.IsZero() {
		c.timer = time.AfterFunc(time.Until(d), func() { c.cancel(context.DeadlineExceeded) })
	}
	return c.done
}

// Err says why Done is closed. It sees a passed deadline without a timer.
func (in *Inbound) Err() error {
	c := &in.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !in.call.Deadline.IsZero() && !time.Now().Before(in.call.Deadline) {
		return context.DeadlineExceeded
	}
	return c.err
}

// AfterFunc runs f in its own goroutine when the context is done. Package
// context uses it for derived contexts, which then need no goroutine.
func (in *Inbound) AfterFunc(f func()) (stop func() bool) {
	in.Done() // arms the deadline
	c := &in.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	a := &afterFunc{f}
	if c.after == nil {
		c.after = map[*afterFunc]struct{}{}
	}
	c.after[a] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.after[a]
		delete(c.after, a)
		return waiting
	}
}

func (c *callContext) cancel(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	after := c.after
	c.after = nil
	c.mu.Unlock()
	for a := range after {
		go a.f()
	}
}

type sessionKey struct{}

// FromContext returns the session on which a handler's call came, or nil.
func FromContext(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}
