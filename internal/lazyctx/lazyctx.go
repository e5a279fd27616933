// Package lazyctx has a context that costs little until something waits for its end.
package lazyctx

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Context is a [context.Context] with a deadline and a cancellation. It makes a context of package
// context only when Done is called, which most handlers of calls never do. Init is to be called
// first; the other methods are safe for concurrent use.
type Context struct {
	parent   context.Context //nolint:containedctx // this is a context
	deadline time.Time       // zero for none

	made atomic.Pointer[made]

	mu    sync.Mutex
	ended error // why the context has ended, if made is nil
}

// made is the context that Done has asked for.
type made struct {
	context.Context

	cancel context.CancelFunc
}

// Init sets what the context is derived from, and its deadline; zero means the parent's.
func (c *Context) Init(parent context.Context, deadline time.Time) {
	if d, ok := parent.Deadline(); ok && (deadline.IsZero() || d.Before(deadline)) {
		deadline = d
	}
	c.parent, c.deadline = parent, deadline
}

// With returns a context that ends at a time, or with its parent. Cancel must be called.
func With(parent context.Context, deadline time.Time) *Context {
	c := new(Context)
	c.Init(parent, deadline)
	return c
}

// Split returns the parent of a Context, and its deadline, for those who watch the deadline themselves;
// others are returned as they are, with their deadline or the zero time.
func Split(ctx context.Context) (parent context.Context, deadline time.Time) {
	deadline, _ = ctx.Deadline()
	if c, ok := ctx.(*Context); ok {
		return c.parent, deadline
	}
	return ctx, deadline
}

// Parent returns what the context is derived from.
func (c *Context) Parent() context.Context { return c.parent }

// Deadline returns the earlier of the context's own deadline and its parent's.
func (c *Context) Deadline() (deadline time.Time, ok bool) {
	return c.deadline, !c.deadline.IsZero()
}

// Done returns a channel that is closed when the context has ended.
func (c *Context) Done() <-chan struct{} {
	if m := c.made.Load(); m != nil {
		return m.Done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.made.Load()
	if m == nil {
		m = c.make()
		c.made.Store(m)
	}
	return m.Done()
}

// make returns a context of package context that ends, or has ended, as this one does.
func (c *Context) make() *made {
	m, parent := new(made), c.parent
	if c.ended != nil {
		parent = context.WithoutCancel(parent) // it ended first, for another reason
	}
	if c.deadline.IsZero() || c.ended == context.Canceled { //nolint:errorlint // it is the error itself
		m.Context, m.cancel = context.WithCancel(parent)
	} else {
		m.Context, m.cancel = context.WithDeadline(parent, c.deadline)
	}
	if c.ended != nil {
		m.cancel()
	}
	return m
}

// Err returns why the context has ended, or nil.
func (c *Context) Err() error {
	if m := c.made.Load(); m != nil {
		return m.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.made.Load(); m != nil {
		return m.Err()
	}
	if c.ended == nil {
		c.ended = c.parent.Err()
	}
	if c.ended == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.ended = context.DeadlineExceeded
	}
	return c.ended
}

// Value returns the parent's value for a key.
func (c *Context) Value(key any) any {
	if m := c.made.Load(); m != nil {
		return m.Value(key) // package context finds the made context so, and derives others from it
	}
	return c.parent.Value(key)
}

// Cancel ends the context, unless it has ended.
func (c *Context) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.made.Load(); m != nil {
		m.cancel()
	} else if c.ended == nil {
		c.ended = context.Canceled
	}
}
