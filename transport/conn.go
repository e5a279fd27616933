package transport

import (
	"net"
	"syscall"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Conn is a connection with the two operations that a session needs beyond those of net.Conn:
// reading that takes a buffer only when there are bytes, and writing that does not wait.
// Sockets of this process have both, and so has a [tandem.RawConn]; others (TLS, in-memory, a
// user's own) use plain reads and writes. A [tandem.PushConn] is read from a buffer that it
// fills.
//
// One goroutine may read while another writes.
type Conn struct {
	net.Conn
	raw   syscall.RawConn // nil on the plain path
	rd    lazyRead
	wr    tryWrite
	small []byte // for waiting on the plain path
}

const smallRead = 256

// Wrap returns c as a Conn; a Conn is returned as it is.
func Wrap(c net.Conn) *Conn {
	if w, ok := c.(*Conn); ok {
		return w
	}
	boundSends(c)
	w := &Conn{Conn: c}
	if p, ok := c.(tandem.PushConn); ok {
		w.Conn = newPushed(p)
		return w
	}
	if raw := rawOf(c); raw != nil {
		w.raw = raw
		w.rd.step, w.wr.step = w.rd.run, w.wr.run // made once: a method value allocates
	}
	return w
}

// rawOf returns the descriptor of a socket, or nil. A type that embeds a socket is not one: it
// has the socket's methods, but its own Read and Write may change the bytes.
func rawOf(c net.Conn) syscall.RawConn {
	var sc syscall.Conn
	switch c := c.(type) {
	case *net.TCPConn:
		sc = c
	case *net.UnixConn:
		sc = c
	case tandem.RawConn:
		if !nonBlocking {
			return nil
		}
		return c.Raw()
	default:
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil || !nonBlocking {
		return nil
	}
	return raw
}

// CanTry reports whether [Conn.TryRead] and [Conn.TryWrite] have an effect.
func (c *Conn) CanTry() bool { return c.raw != nil }

// Lender lends buffers to read into.
type Lender interface {
	Take() []byte    // returns a buffer with room
	Give(buf []byte) // returns a buffer that was not used
}

// ReadLazy waits until there are bytes, takes a buffer, and reads into it. It holds no buffer
// while it waits. It always returns bytes or an error.
func (c *Conn) ReadLazy(l Lender) ([]byte, int, error) {
	if c.raw != nil {
		c.rd.lender = l
		err := c.raw.Read(c.rd.step)
		return c.rd.result(err)
	}
	return c.readSmall(l)
}

// readSmall waits with a small buffer.
func (c *Conn) readSmall(l Lender) ([]byte, int, error) {
	if c.small == nil {
		c.small = make([]byte, smallRead)
	}
	n, err := c.Conn.Read(c.small)
	if n == 0 {
		return nil, 0, err
	}
	buf := l.Take()
	copy(buf, c.small[:n])
	return buf, n, nil // an error comes again with the next read
}

// TryRead is [Conn.ReadLazy] without waiting: neither bytes nor an error means
// that there is nothing to read now.
func (c *Conn) TryRead(l Lender) ([]byte, int, error) {
	if c.raw == nil {
		return nil, 0, nil
	}
	c.rd.lender, c.rd.once = l, true
	err := c.raw.Read(c.rd.step)
	c.rd.once = false
	return c.rd.result(err)
}

// TryWrite writes as much of p as fits without waiting. Less than all of p
// with a nil error means that the connection would block.
func (c *Conn) TryWrite(p []byte) (int, error) {
	if c.raw == nil {
		return 0, nil
	}
	return c.wr.write(c.raw, p)
}

// WriteBy writes all of p, giving up at the deadline.
func (c *Conn) WriteBy(p []byte, deadline time.Time) (int, error) {
	if err := c.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	return c.Write(p)
}

// CloseWrite ends the sending direction, if the connection can.
func (c *Conn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}
