package transport_test

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

// Bytes in the peer's kernel are acknowledged, though its process has read nothing; bytes that
// do not fit there are not.
func TestSent(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH == "386" || runtime.GOARCH == "s390x" {
		t.Skip("nothing is known here")
	}
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
			raw, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			peer, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			c := transport.Wrap(wrap(raw))
			unacked := func() int {
				s, ok := c.Sent()
				if !ok || s.Age < 0 || s.Age > time.Minute {
					t.Fatalf("got %+v, %v", s, ok)
				}
				return s.Unacked
			}
			if _, err := raw.Write(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			for unacked() != 0 {
				time.Sleep(time.Millisecond) // until the kernel has the acknowledgement
			}
			n := 0
			for n == 0 { // on a slow machine the deadline may be over before anything is written
				_ = raw.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // it fills both kernels' buffers
				if n, err = raw.Write(make([]byte, 64<<20)); err == nil {
					t.Fatal("64 MiB fitted")
				}
			}
			if left := unacked(); left <= 0 || left > n {
				t.Errorf("%d of %d bytes are not acknowledged", left, n)
			}
		})
	}
}

// Bytes written to a unix socket have arrived at the peer's host, even if no process has read them.
func TestSentOverUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"plain": raw, "tls": tls.Client(raw, &tls.Config{ServerName: "x"})} {
		if s, ok := transport.Wrap(c).Sent(); !ok || s != (transport.Sent{}) {
			t.Errorf("%s: got %+v, %v", name, s, ok)
		}
	}
}

// acknowledged is a connection that implements Acknowledged.
type acknowledged struct{ net.Conn }

func (acknowledged) Sent() (transport.Sent, bool) {
	return transport.Sent{Unacked: 7, Age: time.Second}, true
}

func TestAcknowledged(t *testing.T) {
	a, b := transport.Pipe(nil, nil)
	defer b.Close()
	if s, ok := transport.Wrap(acknowledged{a}).Sent(); !ok || s.Unacked != 7 || s.Age != time.Second {
		t.Errorf("got %+v, %v", s, ok)
	}
	if s, ok := transport.Wrap(a).Sent(); ok {
		t.Errorf("a pipe knows %+v", s)
	}
}
