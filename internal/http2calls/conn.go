// Package http2calls carries calls over HTTP/2 connections to one server. It is a shell round the
// state machine of internal/http2: a goroutine that reads, writes that callers combine, and the
// waiting. The protocols of calls, gRPC and Connect, are their users' part.
package http2calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/transport"
)

// ErrClosed is the error of what was closed on this side.
var ErrClosed = errors.New("closed")

// errAway is why a connection takes no more calls: its server has sent GOAWAY, or its numbers of
// streams are used up.
var errAway = errors.New("the server takes no more calls on this connection")

// Bounds of a connection.
const (
	maxQueued = 1 << 20 // bytes to be written; further calls wait
	maxSpare  = 256 << 10
	maxIdle   = 32 << 10 // bytes of each of two buffers that are kept while nothing is written
	maxHeader = 1 << 20  // bytes of a response's header or trailer

	// connWindow bounds nothing but what the kernel has: a call's response is taken as it arrives.
	connWindow = 1 << 30
	callWindow = 4 << 20

	// leastWindow is what a server may send before it knows a smaller window (RFC 9113, section 6.9.2).
	leastWindow = 1<<16 - 1
)

// Config is what connections have in common.
type Config struct {
	// Window is how many bytes of a stream's messages may arrive before they are received, and all
	// streams of a connection together may have 16 times as many. 0 is for a connection without
	// streams.
	Window int
	// Stall is how long the server may read nothing while there is something to write, and how long
	// it may take to answer a PING.
	Stall time.Duration
	// Lasting says that Conns do not end when the server can't be connected to.
	Lasting bool
	// Skim reports whether a header, or a trailer, says nothing but success, so that it need not be
	// kept. It runs with the connection's lock held.
	Skim func(b *http2.Block, trailer bool) bool
}

// Conn is a connection. It is safe for concurrent use.
type Conn struct {
	conn       *transport.Conn
	cfg        Config
	goroutines sync.WaitGroup
	all        *sync.WaitGroup // of the connection's goroutines and others
	done       chan struct{}   // closed when the connection has ended

	// mu is never held during a read, a write or a wait.
	mu      sync.Mutex
	m       *http2.Machine
	err     error   // why the connection has ended; nil while it lasts
	waiting []*turn // calls, in their order
	granted int     // calls that have waited, and may begin
	extra   bool    // it ends when it is idle
	writer  writer
	health  health
	expiry  expiry
	direct  direct
	calmed  time.Time // until when the machine was told of the time that has passed
	used    time.Time // when a call ended last

	buf   []byte // of the reader's role, as what follows; nil while nothing is held
	kept  int    // bytes at its beginning that have not been handled
	large int    // reads that still get a large buffer
	woken []*Exchange
}

// Start begins HTTP/2 on a connection, and returns when the server's settings have come. It closes
// nc if that fails.
func Start(ctx context.Context, nc net.Conn, cfg Config) (*Conn, error) {
	return start(ctx, nc, cfg, new(sync.WaitGroup))
}

func start(ctx context.Context, nc net.Conn, cfg Config, all *sync.WaitGroup) (*Conn, error) {
	now := time.Now()
	c := &Conn{cfg: cfg, all: all, done: make(chan struct{}), calmed: now, used: now}
	window, together := uint32(callWindow), uint32(connWindow)
	if cfg.Window > 0 {
		window = uint32(min(max(cfg.Window, leastWindow), connWindow/windows))
		together = windows * window
	}
	c.writer.busy = true // until settings have been exchanged
	c.m = http2.NewClient(http2.Config{MaxHeader: maxHeader, Window: window, ConnWindow: together})
	c.health.heard = now
	if err := c.greet(ctx, nc); err != nil {
		_ = nc.Close()
		return nil, err
	}
	c.conn = transport.Wrap(transport.Checked(nc))
	c.writer.busy = false
	c.direct.able = c.conn.CanTry()
	c.begin(c.read)
	c.flush()
	return c, nil
}

// begin starts a goroutine.
func (c *Conn) begin(f func()) {
	c.goroutines.Add(1)
	c.all.Go(func() {
		defer c.goroutines.Done()
		f()
	})
}

// windows is how many streams' windows fit into that of a connection.
const windows = 16

// past is a deadline that has passed.
var past = time.Unix(1, 0) //nolint:gochecknoglobals // it is not changed

// greet exchanges settings. It reads while it writes: the server may do the same.
func (c *Conn) greet(ctx context.Context, nc net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(past) })
	defer stop()
	wrote := make(chan error, 1)
	b := c.m.Take(nil)
	go func() {
		_, err := nc.Write(b)
		wrote <- err
	}()
	err := c.readSettings(nc)
	if err != nil {
		_ = nc.SetDeadline(past) // the write is in vain
	}
	if failed := <-wrote; err == nil {
		err = failed
	}
	switch {
	case !stop():
		return fmt.Errorf("HTTP/2: the server's settings: %w", ctx.Err())
	case err != nil:
		return fmt.Errorf("HTTP/2: the server's settings: %w", err)
	}
	return nil
}

func (c *Conn) readSettings(nc net.Conn) error {
	c.makeRoom()
	for !c.m.Settled() {
		n, err := nc.Read(c.buf[c.kept:])
		if bytes.HasPrefix(c.buf[:c.kept+n], []byte("HTTP/1.")) {
			return errOld
		}
		if n > 0 {
			if _, err := c.receive(n); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errOld is why there is no HTTP/2 with a server that answers the preface with an error.
var errOld = errors.New("the server speaks HTTP/1 only")

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended or takes no more calls; nil if neither.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errLocked()
}

func (c *Conn) errLocked() error {
	switch {
	case c.err != nil:
		return c.err
	case c.m.Closed():
		return errAway
	}
	return nil
}

// Close ends the connection at once, and waits for its goroutines. Its calls fail.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	c.goroutines.Wait()
	return nil
}

// fail ends the connection. err is the reason, unless there was one before.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.health.stopLocked()
	c.expiry.stopLocked()
	c.direct.stopLocked()
	c.m.Each(func(st *http2.Stream) {
		if o, ok := st.Owner.(owner); ok {
			o.lostLocked(err, c.writer.reached)
		}
	})
	for _, t := range c.waiting {
		close(t.ready)
	}
	c.waiting = nil
	close(c.done)
	c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close() // err is the reason
	}
}

// owner is what a stream of the machine belongs to: an [Exchange] or a [Stream].
type owner interface {
	// eventLocked takes what the server has sent.
	eventLocked(c *Conn, ev *http2.Event)
	// lostLocked notes that the connection has ended. reached is how many of the bytes that were
	// queued may have reached the server.
	lostLocked(err error, reached uint64)
}
