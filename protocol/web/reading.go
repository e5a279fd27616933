package web

import (
	"errors"
	"net"
	"time"
)

var errMalformed = errors.New("the request is malformed")

// Read reads from the client. Over HTTP/1 one Read never returns bytes of two requests.
func (c *conn) Read(p []byte) (int, error) {
	if n, err, done := c.readHeld(p); done {
		return n, err
	}
	n, err := c.Conn.Read(p)
	taken, waiting, err := c.took(p[:n], err)
	extend(waiting, c.StallTimeout())
	return taken, err
}

// took processes the bytes of a read. It returns how many of them Read may return, and the
// requests whose read deadline is to be set again.
func (c *conn) took(b []byte, err error) (taken int, waiting []*response, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err != nil
	c.reading = false
	c.endLocked(c.closed && c.hijacked)
	taken = c.frameLocked(b)
	c.held = append(c.held[:0], b[taken:]...)
	if taken < len(b) {
		err = nil // the next read returns it again
	}
	if c.framing.http2 {
		waiting = c.arrivedLocked(len(b))
	}
	return taken, waiting, err
}

// readHeld returns bytes that were read earlier. done is false if there are none.
func (c *conn) readHeld(p []byte) (n int, err error, done bool) { //nolint:revive // in the order of Read
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed, true
	case c.framing.malformed != "":
		return 0, errMalformed, true
	case len(c.held) == 0:
		c.reading = true
		return 0, nil, false
	}
	n = c.frameLocked(p[:copy(p, c.held)])
	if c.held = c.held[n:]; len(c.held) == 0 {
		c.held = nil
	}
	return n, nil, true
}

// frameLocked follows the framing and returns how many of the bytes Read may return.
func (c *conn) frameLocked(b []byte) int {
	if c.framing.http2 {
		c.frames.add(b)
		c.paceLocked(len(b))
		return len(b)
	}
	midHeader, begun := c.framing.midHeader(), c.framing.begun
	n := c.framing.next(b)
	if !begun && c.framing.begun {
		close(c.versionKnown)
	}
	if c.framing.http2 {
		c.paceLocked(0)
	}
	if c.framing.midHeader() && !midHeader {
		c.headerBeganLocked()
	}
	return n
}

// headerBeganLocked starts the time limit for a header at its first byte. net/http starts
// it at the fourth.
func (c *conn) headerBeganLocked() {
	c.headerBy = time.Now().Add(c.StallTimeout())
	if len(c.responses) == 0 {
		_ = c.Conn.SetReadDeadline(c.headerBy) // an error is reported by the next read
	}
}

// SetReadDeadline sets the deadline of reads, unless the connection is closed.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.paced && t.IsZero() { // net/http does not know about the frame's deadline, and must not remove it
		return nil
	}
	if c.framing.midHeader() && (t.IsZero() || t.After(c.headerBy)) {
		t = c.headerBy
	}
	return c.Conn.SetReadDeadline(t)
}

// speaksHTTP2 reports whether the connection has begun with the preface of HTTP/2.
func (c *conn) speaksHTTP2() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.framing.http2
}

// malformed returns why a request is refused, "" if it is well formed, and whether a Read
// has failed.
func (c *conn) malformed() (why string, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.framing.malformed, c.failed
}

// whole reports whether the whole request has arrived, so that nothing waits for its rest.
func (c *conn) whole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wholeLocked()
}

func (c *conn) wholeLocked() bool {
	ahead := c.framing
	if ahead.midBody() {
		ahead.next(c.held)
	}
	return !ahead.midBody()
}
