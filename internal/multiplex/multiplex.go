// Package multiplex makes many calls in parallel on one connection of a protocol that numbers
// its requests and answers them in any order, as rpcx, net/rpc and JSON-RPC do. One goroutine
// reads and one writes; callers do neither.
package multiplex

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Bounds of a connection.
const (
	maxQueued  = 1 << 20 // bytes to be written; further requests wait
	maxSpare   = 64 << 10
	writePiece = 256 << 10 // bytes that the peer has to take within writeTime
	writeTime  = 10 * time.Second
)

// ErrClosed is the error of a connection that was closed on this side.
var ErrClosed = errors.New("closed")

// Conn is a connection whose responses are of type A. It is safe for concurrent use.
type Conn[A any] struct {
	nc      net.Conn
	next    func() (seq uint64, answer A, err error)
	work    chan struct{} // has a token when there is something to write
	done    chan struct{} // closed when both goroutines have ended
	running atomic.Int32  // goroutines that have not ended

	mu      sync.Mutex
	room    chan struct{} // closed when there is room; nil if no request waits
	queued  []byte
	spare   []byte // a buffer for the next batch
	put     uint64 // bytes that were queued, in total
	written uint64 // bytes that were written to the socket, in total
	seq     uint64 // of the next request
	waiting map[uint64]*waiter[A]
	err     error // why the connection has ended
}

type waiter[A any] struct {
	end    uint64 // of the request, in bytes as put counts them
	answer chan A // has room for the response
}

// New returns a Conn. One goroutine calls next, which reads the next response and blocks until
// it has come. Closing nc must end next.
func New[A any](nc net.Conn, next func() (seq uint64, answer A, err error)) *Conn[A] {
	c := &Conn[A]{
		nc: nc, next: next, work: make(chan struct{}, 1), done: make(chan struct{}), waiting: map[uint64]*waiter[A]{},
	}
	c.running.Store(2)
	go c.read()
	go c.write()
	return c
}

// Fill appends a request with that number to dst, or returns an error and leaves dst as it is.
// Calls of Fill are serialized, in the order of the bytes on the connection.
type Fill func(dst []byte, seq uint64) ([]byte, error)

// Do sends a request and waits for its response. It returns an error of fill as it is. The
// error of a lost connection is a [*tandem.Error], with NotExecuted if the last byte of the
// request has not reached the socket.
func (c *Conn[A]) Do(ctx context.Context, fill Fill) (answer A, err error) {
	w := &waiter[A]{answer: make(chan A, 1)}
	seq, err := c.queue(ctx, fill, w)
	if err != nil {
		return answer, err
	}
	select {
	case answer = <-w.answer:
		return answer, nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, seq)
		c.mu.Unlock()
		return answer, ctx.Err()
	case <-c.done:
	}
	select {
	case answer = <-w.answer: // it came before the end
		return answer, nil
	default:
	}
	return answer, c.lost(w.end)
}

// Send sends a request whose response is not waited for. It returns when the request is in the
// queue.
func (c *Conn[A]) Send(ctx context.Context, fill Fill) error {
	_, err := c.queue(ctx, fill, nil)
	return err
}

// queue queues a request. w waits for the response; nil if it is not waited for.
func (c *Conn[A]) queue(ctx context.Context, fill Fill, w *waiter[A]) (seq uint64, err error) {
	if err := c.lockWithRoom(ctx); err != nil {
		return 0, err
	}
	defer c.mu.Unlock()
	seq = c.seq
	before := len(c.queued)
	queued, err := fill(c.queued, seq)
	if err != nil {
		return 0, err
	}
	c.seq++
	c.queued = queued
	c.put += uint64(len(queued) - before) //nolint:gosec // it was appended to
	if w != nil {
		w.end = c.put
		c.waiting[seq] = w
	}
	select {
	case c.work <- struct{}{}:
	default:
	}
	return seq, nil
}

// lockWithRoom locks the mutex once there is room to queue a request. It returns an error, with
// the mutex unlocked, if the connection or ctx ends first.
func (c *Conn[A]) lockWithRoom(ctx context.Context) error {
	for {
		c.mu.Lock()
		switch {
		case c.err != nil:
			err := c.err
			c.mu.Unlock()
			select {
			case <-c.done: // so that a caller which looks for another connection sees that this one has ended
			case <-ctx.Done():
			}
			return notSent(err)
		case len(c.queued) <= maxQueued:
			return nil
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			e := tandem.AsError(ctx.Err())
			e.NotExecuted = true
			return e
		}
	}
}

func notSent(why error) error {
	return &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: fmt.Sprintf("the connection has ended: %v", why)}
}

// lost returns the error of a request that ends at that byte and got no response.
func (c *Conn[A]) lost(end uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end > c.written {
		return notSent(c.err)
	}
	if e, ok := c.err.(*tandem.Error); ok && len(c.waiting) == 1 { //nolint:errorlint // not one that it wraps
		return e // as far as is known it is about the response to this request
	}
	return tandem.Errorf(tandem.Unavailable, "the connection has ended before the answer: %w", c.err)
}

// read passes responses to their requests until the connection ends.
func (c *Conn[A]) read() {
	defer c.exit()
	for {
		seq, answer, err := c.next()
		if err != nil {
			c.fail(err)
			return
		}
		c.mu.Lock()
		w := c.waiting[seq]
		delete(c.waiting, seq)
		c.mu.Unlock()
		if w != nil {
			w.answer <- answer
		}
	}
}

// write writes what is queued, until the connection ends.
func (c *Conn[A]) write() {
	defer c.exit()
	for range c.work {
		c.mu.Lock()
		batch, err := c.queued, c.err
		c.queued, c.spare = c.spare[:0], nil
		c.makeRoomLocked()
		c.mu.Unlock()
		if err == nil {
			err = c.writeAll(batch)
		}
		if err != nil {
			c.fail(err)
			return
		}
		c.mu.Lock()
		if cap(batch) <= maxSpare {
			c.spare = batch
		}
		c.mu.Unlock()
	}
}

func (c *Conn[A]) makeRoomLocked() {
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// writeAll writes all of b, and counts the bytes written.
func (c *Conn[A]) writeAll(b []byte) error {
	for len(b) > 0 {
		if err := c.nc.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return err
		}
		n, err := c.nc.Write(b[:min(len(b), writePiece)])
		c.mu.Lock()
		c.written += uint64(n) //nolint:gosec // never negative
		c.mu.Unlock()
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// fail ends the connection. err is the reason, unless there was one before.
func (c *Conn[A]) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.makeRoomLocked()
	select {
	case c.work <- struct{}{}: // wakes the writer, which sees err
	default:
	}
	c.mu.Unlock()
	_ = c.nc.Close() // err is the reason
}

// exit counts the end of one of the goroutines. The last one closes done.
func (c *Conn[A]) exit() {
	if c.running.Add(-1) == 0 {
		close(c.done)
	}
}

// Done is closed when the connection has ended.
func (c *Conn[A]) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended or is about to; nil if neither.
func (c *Conn[A]) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits for its goroutines. Calls in flight fail.
func (c *Conn[A]) Close() error {
	c.fail(ErrClosed)
	<-c.done
	return nil
}
