package server

import (
	"net"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

// outbox holds the bytes to be written to a connection. A goroutine that adds some while no
// other one writes becomes the writer.
type outbox struct {
	mu      sync.Mutex
	room    sync.Cond // on mu: less is queued, or writing has failed
	queued  []byte
	spare   []byte // a buffer to be used again
	writing bool
	last    bool  // nothing more may be queued
	err     error // why nothing can be written any more
}

// Bounds of an outbox.
const (
	maxQueued  = 1 << 20 // bytes; Send waits while more are queued
	maxSpare   = 64 << 10
	writePiece = 64 << 10 // bytes that the peer has to read within the stall timeout
)

// Send writes a response. fill appends it to dst and returns the result, or returns an error,
// and nothing is sent. Calls of fill never overlap, and they run in the order in which the
// responses are written. Responses that are queued together leave in one write. Send may return
// before that, and waits while more than 1 MiB is queued. If the peer reads nothing for
// [WithStallTimeout], the connection is closed.
func (c *Conn) Send(fill func(dst []byte) ([]byte, error)) error { return c.send(fill, false) }

// SendLast is Send of the last response: the connection is closed when everything that was sent
// is written, and later calls of Send return [net.ErrClosed].
func (c *Conn) SendLast(fill func(dst []byte) ([]byte, error)) error { return c.send(fill, true) }

func (c *Conn) send(fill func(dst []byte) ([]byte, error), last bool) error {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queued) > maxQueued && o.err == nil && !o.last {
		o.room.Wait()
	}
	if o.err != nil {
		return o.err
	}
	if o.last {
		return net.ErrClosed
	}
	queued, err := fill(o.queued)
	if err != nil {
		return err
	}
	o.queued, o.last = queued, last
	if !o.writing {
		o.writing = true
		c.writeQueuedLocked()
		o.writing = false
	}
	return o.err
}

// writeQueuedLocked writes until nothing is queued. The lock is released while it
// writes.
func (c *Conn) writeQueuedLocked() {
	o := &c.out
	for len(o.queued) > 0 && o.err == nil {
		batch := o.queued
		o.queued = o.spare[:0]
		o.spare = nil
		o.room.Broadcast()
		o.mu.Unlock()
		_, err := c.Write(batch)
		o.mu.Lock()
		o.err = err
		if cap(batch) <= maxSpare {
			o.spare = batch
		}
	}
	if o.err != nil {
		o.queued, o.spare = nil, nil
		o.room.Broadcast()
	}
	if o.err != nil || o.last {
		c.end()
	}
}

// TryWrite writes as much of p as the connection takes at once: none of it if the connection can't
// tell how much that is, as with TLS.
func (c *Conn) TryWrite(p []byte) (int, error) {
	if t, ok := c.Conn.(*transport.Conn); ok {
		return t.TryWrite(p)
	}
	return 0, nil
}

// Write writes all of p. The peer has to read each 64 KiB of it within [WithStallTimeout]. For
// responses of concurrent calls use Send.
func (c *Conn) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.server.opts.stall)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[:min(len(p), writePiece)])
		written += n
		if err != nil {
			return written, err
		}
		p = p[n:]
	}
	return written, nil
}
