package quic

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// partTime is how long a closed connection waits for its peer to read what was written before.
const partTime = time.Second

// conn is the one stream of a QUIC connection.
type conn struct {
	quic   *quicgo.Conn
	socket *socket

	ready chan struct{} // closed when there is a stream, or there will be none

	mu       sync.Mutex
	stream   *quicgo.Stream // nil until the client has opened it
	err      error          // why there is no stream
	readBy   time.Time      // deadline of Read, also while it waits for the stream
	writeBy  time.Time
	deadline chan struct{} // closed and replaced when one of these changes
	closed   bool

	halved   atomic.Bool // our sending direction has ended
	heard    sync.Once   // records the peer's end once
	ended    atomic.Bool // the peer's sending direction has ended
	answered atomic.Bool // the peer's end came after ours

	reading sync.Mutex
}

func newDialed(c *quicgo.Conn, stream *quicgo.Stream, s *socket) *conn {
	d := &conn{quic: c, socket: s, stream: stream, ready: make(chan struct{}), deadline: make(chan struct{})}
	stream.SetReceiveFinalSizeCallback(d.hearEnd)
	close(d.ready)
	return d
}

// newAccepted returns a connection whose stream is not open yet: a goroutine waits for it until
// the connection ends.
func newAccepted(c *quicgo.Conn, s *socket) *conn {
	a := &conn{quic: c, socket: s, ready: make(chan struct{}), deadline: make(chan struct{})}
	go a.accept()
	return a
}

func (c *conn) accept() {
	defer close(c.ready)
	stream, err := c.quic.AcceptStream(c.quic.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.err = ending(err)
		return
	}
	c.stream = stream
	stream.SetReceiveFinalSizeCallback(c.hearEnd)
	c.err = errors.Join(stream.SetReadDeadline(c.readBy), stream.SetWriteDeadline(c.writeBy))
}

// opened waits until the client has opened the stream, and returns it. It fails when the
// deadline of the Read or Write that needs it has passed.
func (c *conn) opened(by *time.Time) (*quicgo.Stream, error) {
	for {
		select {
		case <-c.ready:
			return c.stream, c.err
		default:
		}
		c.mu.Lock()
		at, changed := *by, c.deadline
		c.mu.Unlock()
		over, stop := passing(at)
		select {
		case <-c.ready:
		case <-changed:
		case <-over:
			stop()
			return nil, os.ErrDeadlineExceeded
		}
		stop()
	}
}

// passing returns a channel that delivers at that time; never for the zero time.
func passing(at time.Time) (<-chan time.Time, func()) {
	if at.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(time.Until(at))
	return t.C, func() { t.Stop() }
}

func (c *conn) Read(p []byte) (int, error) {
	stream, err := c.opened(&c.readBy)
	if err != nil {
		return 0, err
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.isClosed() {
		return 0, net.ErrClosed
	}
	n, err := stream.Read(p)
	if err != nil {
		err = ending(err)
	}
	if errors.Is(err, io.EOF) {
		c.hearEnd(0)
	}
	return n, err
}

// hearEnd records the peer's end when it arrives, which may be long before it is read. It takes
// no lock: c.end waits, with a lock held, for the goroutine of quic-go that calls this. Read
// calls it, too, and may be earlier.
func (c *conn) hearEnd(int64) {
	c.heard.Do(func() {
		c.answered.Store(c.halved.Load())
		c.ended.Store(true)
	})
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *conn) Write(p []byte) (int, error) {
	stream, err := c.opened(&c.writeBy)
	if err != nil {
		return 0, err
	}
	n, err := stream.Write(p)
	if err != nil {
		err = ending(err)
	}
	return n, err
}

// ending translates the end of a connection to errors of net: the peer's close is io.EOF, our
// own net.ErrClosed.
func ending(err error) error {
	app, ok := errors.AsType[*quicgo.ApplicationError](err)
	switch {
	case ok && app.Remote && app.ErrorCode == 0:
		return io.EOF
	case ok:
		return fmt.Errorf("quic: %w: %w", net.ErrClosed, err)
	}
	return err
}

// CloseWrite ends the sending direction.
func (c *conn) CloseWrite() error {
	stream, err := c.opened(&c.writeBy)
	if err != nil {
		return err
	}
	c.halved.Store(true)
	return stream.Close()
}

// Close ends the connection. What was written before still reaches a peer that reads it within
// a second; Close does not wait for that.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if c.stream == nil || c.quic.Context().Err() != nil || c.answered.Load() {
		return c.end()
	}
	ended := c.ended.Load()                      // before ours is sent
	err := c.stream.SetDeadline(time.Unix(1, 0)) // reads and writes that wait end
	if err := errors.Join(err, c.stream.Close()); err != nil {
		return errors.Join(err, c.end())
	}
	go c.part(ended) // ends in partTime
	return nil
}

func (c *conn) end() error {
	return errors.Join(c.quic.CloseWithError(0, ""), c.socket.release())
}

// part ends a connection so that the peer can read what was written: closing QUIC's connection
// at once would discard it. If the peer's end comes after ours, the peer has read ours, or has
// closed too. If it came before, the peer reads on until ours, and then closes; so at most one of
// the two sides waits.
func (c *conn) part(ended bool) {
	until := time.Now().Add(partTime)
	c.reading.Lock() // no Read runs any more
	defer c.reading.Unlock()
	if !ended && c.stream.SetReadDeadline(until) == nil {
		_, _ = io.Copy(io.Discard, c.stream) // to the end, or the deadline
	}
	if ended {
		ctx, cancel := context.WithDeadline(c.quic.Context(), until)
		defer cancel()
		<-ctx.Done()
	}
	_ = c.end() // its error changes nothing
}

func (c *conn) LocalAddr() net.Addr  { return c.quic.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.quic.RemoteAddr() }

// ConnectionState returns the connection's TLS state.
func (c *conn) ConnectionState() tls.ConnectionState { return c.quic.ConnectionState().TLS }

func (c *conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, true, true) }

func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, true, false) }

func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, false, true) }

func (c *conn) setDeadlines(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if read {
		c.readBy = t
	}
	if write {
		c.writeBy = t
	}
	close(c.deadline)
	c.deadline = make(chan struct{})
	if c.stream == nil {
		return nil
	}
	return errors.Join(c.stream.SetReadDeadline(c.readBy), c.stream.SetWriteDeadline(c.writeBy))
}
