package http2calls

import (
	"context"
	"slices"
)

// turn is a call that waits until the server takes more, or less is queued.
type turn struct {
	ready   chan struct{} // closed when it is granted, or the connection takes no more calls
	granted bool
}

// lockForCall locks mu when there is room for another call. On an error mu is not locked.
func (c *Conn) lockForCall(ctx context.Context) error {
	c.mu.Lock()
	c.pollLocked()
	if err := c.errLocked(); err != nil {
		c.mu.Unlock()
		return notTaken(err)
	}
	if len(c.waiting) == 0 && c.roomLocked() {
		return nil
	}
	t := &turn{ready: make(chan struct{})}
	c.waiting = append(c.waiting, t)
	c.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
	}
	c.mu.Lock()
	if t.granted {
		c.granted--
	} else {
		c.waiting = slices.DeleteFunc(c.waiting, func(other *turn) bool { return other == t })
	}
	switch err := c.errLocked(); {
	case err != nil:
		c.mu.Unlock()
		return notTaken(err)
	case !t.granted || ctx.Err() != nil:
		c.grantLocked()
		c.mu.Unlock()
		return &FailedError{Err: ctx.Err(), NotExecuted: true}
	}
	return nil
}

func notTaken(err error) error { return &FailedError{Err: err, NotExecuted: true, NotTaken: true} }

// roomLocked reports whether there is room for another call, besides those that have been granted one.
func (c *Conn) roomLocked() bool {
	return c.m.Vacant() > c.granted && len(c.m.Output()) < maxQueued
}

// grantLocked lets calls begin that have waited, in their order.
func (c *Conn) grantLocked() {
	if len(c.waiting) == 0 {
		return
	}
	closed := c.m.Closed() || c.err != nil
	for len(c.waiting) > 0 && (closed || c.roomLocked()) {
		t := c.waiting[0]
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		if !closed {
			t.granted = true
			c.granted++
		}
		close(t.ready)
	}
}

// vacantLocked reports whether the connection takes a call at once.
func (c *Conn) vacantLocked() bool {
	return c.errLocked() == nil && len(c.waiting) == 0 && c.roomLocked()
}
