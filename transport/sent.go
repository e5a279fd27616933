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

// Sent returns what is known of the bytes that were written. On Linux it is known of TCP,
// also under TLS, elsewhere of connections that are [Acknowledged].
func (c *Conn) Sent() (s Sent, ok bool) {
	if c.raw != nil {
		return sentBy(c.raw)
	}
	inner := c.Conn
	for range wrapped {
		switch w := inner.(type) {
		case Acknowledged:
			return w.Sent()
		case *net.TCPConn:
			raw, err := w.SyscallConn()
			if err != nil {
				return s, false
			}
			return sentBy(raw)
		case Wrapping:
			inner = w.NetConn()
		default:
			return s, false
		}
	}
	return s, false
}

func sentBy(raw syscall.RawConn) (s Sent, ok bool) {
	err := raw.Control(func(fd uintptr) { s, ok = sent(fd) })
	return s, ok && err == nil
}
