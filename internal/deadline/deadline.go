// Package deadline has contexts that end at the deadline of a call. They start a timer only for those
// who wait for them, not for those who watch the deadline themselves.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is a context with a deadline.
type Context struct {
	context.Context // the parent

	at time.Time

	mu     sync.Mutex
	timed  context.Context //nolint:containedctx // nil until Done is called
	cancel context.CancelFunc
	over   bool
}

// With returns a context that ends at a time, or with its parent. End must be called.
func With(parent context.Context, at time.Time) *Context { return &Context{Context: parent, at: at} }

// Split returns the parent of a Context, and its deadline; others are returned as they are, with their
// deadline or the zero time.
func Split(ctx context.Context) (parent context.Context, at time.Time) {
	at, _ = ctx.Deadline()
	if c, ok := ctx.(*Context); ok {
		return c.Context, at
	}
	return ctx, at
}

// Deadline returns the earlier of the context's deadline and its parent's.
func (c *Context) Deadline() (time.Time, bool) {
	if at, ok := c.Context.Deadline(); ok && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}

// Done returns a channel that is closed when the context ends.
func (c *Context) Done() <-chan struct{} { return c.start().Done() }

// start returns the context with a timer.
func (c *Context) start() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.at)
		if c.over {
			c.cancel()
		}
	}
	return c.timed
}

// Err returns why the context has ended; nil if it has not.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timed != nil:
		return c.timed.Err()
	case c.Context.Err() != nil:
		return c.Context.Err()
	case !time.Now().Before(c.at):
		return context.DeadlineExceeded
	case c.over:
		return context.Canceled
	}
	return nil
}

// Value returns a value of the parent. Package context finds the timer of a Context by it, too.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	timed := c.timed
	c.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return c.Context.Value(key)
}

// End ends the context and releases what it holds.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.cancel != nil {
		c.cancel()
	}
}
