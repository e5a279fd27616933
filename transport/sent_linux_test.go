//go:build linux && !386 && !s390x

package transport

import (
	"crypto/tls"
	"net"
	"syscall"
	"testing"
)

// The kernel takes few bytes that it can't send yet, under TLS too.
func TestUnsentIsBounded(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"plain": func(c net.Conn) net.Conn { return c },
		"tls":   func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{ServerName: "x"}) },
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			Wrap(wrap(c))
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			err = raw.Control(func(fd uintptr) {
				got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowAt)
				if err != nil || got != mostUnsent {
					t.Errorf("bound %d, %v", got, err)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
