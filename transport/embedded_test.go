package transport_test

import (
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
)

// flippedConn embeds a socket, with all its methods, but sends other bytes than its user
// writes.
type flippedConn struct{ *net.TCPConn }

func (c flippedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	copy(p, flip(p[:n]))
	return n, err
}

func (c flippedConn) Write(p []byte) (int, error) { return c.TCPConn.Write(flip(p)) }

func flip(p []byte) []byte {
	q := make([]byte, len(p))
	for i, b := range p {
		q[i] = b ^ 0x55
	}
	return q
}

// tcpPair returns the ends of a connection, which close with the test.
func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.DialTCP("tcp", nil, ln.Addr().(*net.TCPAddr)); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

// A type that embeds a socket is read and written by its own methods; otherwise a connection
// that encrypts would send plain text.
func TestEmbeddedSocketKeepsItsMethods(t *testing.T) {
	const secret = "the password"
	a, b := tcpPair(t)
	conn := transport.Wrap(flippedConn{a})
	if n, err := conn.TryWrite([]byte(secret)); n != 0 || err != nil || conn.CanTry() {
		t.Errorf("%d bytes went to the socket, %v", n, err)
	}
	if _, err := conn.WriteBy([]byte(secret), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	sniffed := make([]byte, len(secret))
	if _, err := io.ReadFull(b, sniffed); err != nil || string(flip(sniffed)) != secret {
		t.Errorf("%q crossed the network, %v", sniffed, err)
	}
	if _, err := b.Write(flip([]byte(secret))); err != nil {
		t.Fatal(err)
	}
	buf, n, err := conn.ReadLazy(new(lender))
	if err != nil || string(buf[:n]) != secret {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

// rawSocket is a socket of a type outside package net that implements tandem.RawConn.
type rawSocket struct {
	flippedConn // a use of its Read and Write would show
	raw         syscall.RawConn
}

func (c rawSocket) Raw() syscall.RawConn { return c.raw }

var _ tandem.RawConn = rawSocket{}

// A RawConn is read and written through its descriptor, like a socket.
func TestRawConn(t *testing.T) {
	const words = "in clear text"
	a, b := tcpPair(t)
	raw, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	conn := transport.Wrap(rawSocket{flippedConn{a}, raw})
	if runtime.GOOS == "windows" {
		if conn.CanTry() {
			t.Error("there are no descriptors that do not block")
		}
		return
	}
	if n, err := conn.TryWrite([]byte(words)); n != len(words) || err != nil || !conn.CanTry() {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	got := make([]byte, len(words))
	if _, err := io.ReadFull(b, got); err != nil || string(got) != words {
		t.Errorf("%q crossed the network, %v", got, err)
	}
	if _, err := b.Write([]byte(words)); err != nil {
		t.Fatal(err)
	}
	buf, n, err := conn.ReadLazy(new(lender))
	if err != nil || string(buf[:n]) != words {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	if transport.Wrap(rawSocket{flippedConn{a}, nil}).CanTry() {
		t.Error("without a descriptor it can try")
	}
}
