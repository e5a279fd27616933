package transport

import (
	"net"
	"syscall"
	"time"
)

// Sent is the state of the bytes that were written to a connection.
type Sent struct {
	Unacked int           // bytes that the other host has not acknowledged, including those not sent yet
	Age     time.Duration // since the other host last acknowledged anything
}

// Acknowledged is a [net.Conn] that knows what the other host has acknowledged, though its
// process may not have read it. A session uses it when its peer is silent: if the bytes arrive,
// the peer's process hangs; if not, the path to the peer is broken.
type Acknowledged interface {
	net.Conn

	// Sent must not block; ok is false when nothing is known.
	Sent() (s Sent, ok bool)
}

// mostUnsent is how many unsent bytes of a connection the kernel holds at most, where that can
// be set. In its own buffer of megabytes a small call would wait behind all bytes of uploads;
// in the session, calls and uploads take turns.
const mostUnsent = 64 << 10

// Sent returns the state of the bytes that were written. It is known for TCP on Linux, also
// under TLS, for unix sockets, which lead to the same host, and for connections that are
// [Acknowledged].
func (c *Conn) Sent() (s Sent, ok bool) {
	if a := c.LocalAddr(); a != nil && a.Network() == "unix" {
		return s, true
	}
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

// innermost returns the first connection from c inwards that is [Acknowledged], or else the
// innermost one.
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
