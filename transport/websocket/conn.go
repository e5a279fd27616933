package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	ws "github.com/coder/websocket"

	"github.com/tandem-rpc/tandem/transport"
)

const (
	maxMessage = 64 << 10    // bytes of the messages that we send: libraries have limits
	partTime   = time.Second // for the peer to answer the close
	copySize   = 16 << 10
)

// conn makes a connection of a WebSocket. A goroutine of its own receives: otherwise a deadline
// in the middle of a message would end the connection.
type conn struct {
	net.Conn // the connection below, for its addresses

	ws    *ws.Conn
	in    *transport.Inbox
	below *transport.Conn // the connection below, for Sent only

	writing sync.Mutex
	closed  atomic.Bool

	// The connection below has the write deadline only while Write runs: the goroutine that
	// receives answers pings, and an old deadline would make those writes fail.
	deadline sync.Mutex
	writeBy  time.Time
	inWrite  bool
}

// secured is a conn whose connection below has TLS.
type secured struct {
	*conn
	state func() tls.ConnectionState
}

// ConnectionState returns the TLS state of the connection below. Its NegotiatedProtocol is
// empty: ALPN has chosen the WebSocket's HTTP there, not the protocol that the WebSocket
// carries.
func (c secured) ConnectionState() tls.ConnectionState {
	state := c.state()
	state.NegotiatedProtocol = ""
	return state
}

func newConn(w *ws.Conn, raw net.Conn) net.Conn {
	w.SetReadLimit(-1) // a message is read in pieces
	c := &conn{Conn: raw, ws: w, in: transport.NewInbox(), below: &transport.Conn{Conn: raw}}
	go c.receive() // until the WebSocket has ended
	if t, ok := raw.(interface{ ConnectionState() tls.ConnectionState }); ok {
		return secured{c, t.ConnectionState}
	}
	return c
}

// Sent returns the state of the bytes that were written to the connection below.
func (c *conn) Sent() (transport.Sent, bool) { return c.below.Sent() }

// receive moves received bytes to the inbox until the connection ends.
func (c *conn) receive() {
	err := c.receiveAll()
	if s := ws.CloseStatus(err); s == ws.StatusNormalClosure || s == ws.StatusGoingAway {
		err = io.EOF
	}
	c.in.End(err)
}

func (c *conn) receiveAll() error {
	for {
		kind, message, err := c.ws.Reader(context.Background())
		if err != nil {
			return err
		}
		if kind != ws.MessageBinary {
			if c.closed.CompareAndSwap(false, true) {
				c.part(ws.StatusUnsupportedData, "binary messages only")
			}
			return errors.New("websocket: the peer sent text: want binary messages")
		}
		if err := c.copyOf(message); err != nil {
			return err
		}
	}
}

// buffers are held while a message arrives, not while a connection waits.
var buffers = sync.Pool{New: func() any { return new([copySize]byte) }}

func (c *conn) copyOf(message io.Reader) error {
	buf := buffers.Get().(*[copySize]byte)
	defer buffers.Put(buf)
	for {
		n, err := message.Read(buf[:])
		if n > 0 {
			if _, err := c.in.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write sends p in binary messages. A write that misses its deadline ends the connection, as
// half a message can't be taken back. On an error the message that was begun counts as written:
// the peer may have got all of it.
func (c *conn) Write(p []byte) (done int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed.Load() {
		return 0, fmt.Errorf("websocket: write: %w", net.ErrClosed)
	}
	if err := c.bound(true); err != nil {
		return 0, err
	}
	defer func() { _ = c.bound(false) }() // if the connection below is closed, the next write fails
	for done < len(p) {
		n := min(len(p)-done, maxMessage)
		if err := c.ws.Write(context.Background(), ws.MessageBinary, p[done:done+n]); err != nil {
			return done + n, err
		}
		done += n
	}
	return done, nil
}

// bound sets the deadline of the connection below when a write begins, and removes it when the
// write ends.
func (c *conn) bound(inWrite bool) error {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.inWrite = inWrite
	if c.writeBy.IsZero() || c.closed.Load() { // part has a deadline of its own
		return nil
	}
	if inWrite {
		return c.Conn.SetWriteDeadline(c.writeBy)
	}
	return c.Conn.SetWriteDeadline(time.Time{})
}

// SetWriteDeadline applies to the running write, and to later ones.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	if c.closed.Load() {
		return net.ErrClosed
	}
	c.writeBy = t
	if c.inWrite {
		return c.Conn.SetWriteDeadline(t)
	}
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.in.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close sends a close frame, unless a write waits, and gives the peer a second to answer it:
// then the peer has received what was written before. Close does not wait for that.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	c.in.Close()
	if !c.writing.TryLock() {
		return c.Conn.Close()
	}
	c.writing.Unlock()
	go c.part(ws.StatusNormalClosure, "") // ends in partTime
	return nil
}

// part ends the connection, after the peer's answer if that comes in time.
func (c *conn) part(status ws.StatusCode, reason string) {
	c.deadline.Lock()
	err := c.Conn.SetDeadline(time.Now().Add(partTime))
	c.deadline.Unlock()
	if err == nil {
		_ = c.ws.Close(status, reason) // the peer may be gone
	}
	_ = c.Conn.Close()
}
