package transport

import (
	"net"
	"syscall"
	"time"
)

// Sent is what a transport knows of bytes that were written.
type Sent struct {
	Unacked int           // bytes that the other host has not acknowledged, those included that were not sent yet
	Age     time.Duration // since the other host last acknowledged anything
}

// Acknowledged is a [net.Conn] that knows what the other host has acknowledged, though
// its process may not have read it. A session asks one whose peer is silent: if what it
// wrote arrives, the peer's process hangs; if not, the way to it is broken.
type Acknowledged interface {
	net.Conn

	// Sent must not block; ok is false when nothing is known.
	Sent() (s Sent, ok bool)
}

// mostUnsent is how much the kernel takes of a connection before it is sent, as far as it
// can be told. With its own buffer of megabytes a small call would wait behind all that
// uploads have put there; what waits in the session is sent in turns.
const mostUnsent = 64 << 10

// Sent returns what is known of the bytes that were written. On Linux it is known of TCP,
// also under TLS, elsewhere of connections that are [Acknowledged].
func (c *Conn) Sent() (s Sent, ok bool) {
	if c.raw != nil {
		return sentBy(c.raw)
	}
	switch inner := innermost(c.Conn).(type) {
	case Acknowledged:
		return inner.Sent()
	case *net.TCPConn:
		if raw, err := inner.SyscallConn(); err == nil {
			return sentBy(raw)
		}
	}
	return s, false
}

func sentBy(raw syscall.RawConn) (s Sent, ok bool) {
	err := raw.Control(func(fd uintptr) { s, ok = sent(fd) })
	return s, ok && err == nil
}

// innermost returns what c is or wraps that is [Acknowledged], or else wraps nothing.
func innermost(c net.Conn) net.Conn {
	for range wrapped {
		w, ok := c.(Wrapping)
		if _, known := c.(Acknowledged); known || !ok {
			break
		}
		c = w.NetConn()
	}
	return c
}

// boundSends applies mostUnsent to a connection over TCP.
func boundSends(c net.Conn) {
	tcp, ok := innermost(c).(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(boundUnsent) // fails on a closed connection only
	}
}
