//go:build linux && !386 && !s390x

package transport

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"
)

// Received returns the number of unread bytes and the age of the last one, under TLS too.
func TestReceived(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"plain": func(c net.Conn) net.Conn { return c },
		"tls":   func(c net.Conn) net.Conn { return tls.Server(c, &tls.Config{ServerName: "x"}) },
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			peer, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			inner, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer inner.Close()
			c := Wrap(wrap(inner))
			if _, err := io.WriteString(peer, "0123456789"); err != nil {
				t.Fatal(err)
			}
			const age = 20 * time.Millisecond
			time.Sleep(2 * age) // by the kernel's clock
			if r, ok := c.Received(); !ok || r.Unread != 10 || r.Age < age {
				t.Errorf("%+v, %v", r, ok)
			}
			if _, err := io.ReadFull(inner, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			if r, ok := c.Received(); !ok || r.Unread != 6 || r.Age < age {
				t.Errorf("after a read: %+v, %v", r, ok)
			}
		})
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if r, ok := Wrap(a).Received(); ok {
		t.Errorf("a pipe: %+v", r)
	}
}
