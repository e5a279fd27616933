package transport

import (
	"syscall"
	"time"
)

// Received is what the kernel knows of bytes that have come to this host.
type Received struct {
	Unread int           // bytes that nobody has read
	Age    time.Duration // since the last one came
}

// Received returns what is known of the bytes that have come. On Linux it is known of TCP, also
// under TLS.
func (c *Conn) Received() (r Received, ok bool) {
	raw := c.raw
	if raw == nil {
		sc, is := innermost(c.Conn).(syscall.Conn)
		if !is {
			return r, false
		}
		var err error
		if raw, err = sc.SyscallConn(); err != nil {
			return r, false
		}
	}
	err := raw.Control(func(fd uintptr) { r, ok = received(fd) })
	return r, ok && err == nil
}
