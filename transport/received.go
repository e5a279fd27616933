package transport

import (
	"syscall"
	"time"
)

// Received is the state of the bytes that have arrived at this host.
type Received struct {
	Unread int           // bytes that this process has not read
	Age    time.Duration // since the last one arrived
}

// Received returns the state of the bytes that have arrived. It is known on Linux for TCP, also
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
