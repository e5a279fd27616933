package nbio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

// patience bounds how long a step may take; a step that works does not wait for it.
const patience = time.Minute

func open(t testing.TB) *Transport {
	t.Helper()
	n, err := New(transport.TCP())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// pair returns a connection that the engine watches, and its peer, a plain socket.
func pair(t testing.TB, n *Transport) (*conn, *net.TCPConn) {
	t.Helper()
	ln, err := transport.TCP().Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialed, err := n.Dial(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	by := time.Now().Add(patience)
	if err := errors.Join(dialed.SetDeadline(by), peer.SetDeadline(by)); err != nil {
		t.Fatal(err)
	}
	return dialed.(*conn), peer.(*net.TCPConn)
}

// letGo waits until the engine has released c.
func letGo(t testing.TB, c *conn) {
	t.Helper()
	select {
	case <-c.left:
	case <-time.After(patience):
		t.Fatal("the engine does not let go")
	}
}

func (c *conn) hasPlain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plain != nil
}

// The engine releases the connection when the peer has ended its direction. Bytes that came
// before are still read, and the other direction works.
func TestPeerEndsItsDirection(t *testing.T) {
	c, peer := pair(t, open(t))
	question, answer := bytes.Repeat([]byte("question"), 5_000), bytes.Repeat([]byte("the answer"), 1_000_000)
	if _, err := peer.Write(question); err != nil {
		t.Fatal(err)
	}
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	letGo(t, c)
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, question) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(question), err)
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d bytes, %v", n, err)
	}
	if c.hasPlain() {
		t.Error("the end came from Go's poller")
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(answer)
		sent <- errors.Join(err, c.Close())
	}()
	if got, err := io.ReadAll(peer); err != nil || !bytes.Equal(got, answer) {
		t.Errorf("the peer read %d of %d bytes, %v", len(got), len(answer), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A connection whose bytes are read as they come, and whose writes fit, uses the engine only.
func TestGosPollerIsNotUsed(t *testing.T) {
	c, peer := pair(t, open(t))
	buf := make([]byte, 5)
	for range 100 {
		got := make(chan error, 1)
		go func() { // waits, most of the time
			_, err := io.ReadFull(c, buf)
			got <- err
		}()
		if _, err := peer.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(peer, buf); err != nil || string(buf) != "hello" {
			t.Fatalf("%q came back, %v", buf, err)
		}
	}
	if c.hasPlain() {
		t.Error("Go's poller watches it too")
	}
}

// A connection that is not read does not delay others of the same poller.
func TestSlowReaderDelaysNoOther(t *testing.T) {
	n := open(t)
	_, flood := pair(t, n)
	if err := flood.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := flood.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("64 MiB were written to a peer that does not read: %v", err)
	}
	c, peer := pair(t, n)
	words := bytes.Repeat([]byte("words"), 500_000)
	go func() {
		_, _ = peer.Write(words) // the other end checks what arrives
		_ = peer.CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, words) {
		t.Errorf("read %d of %d bytes while another connection is not read, %v", len(got), len(words), err)
	}
}

// After the engine's end open connections go on, and new ones are refused.
func TestEngineEnds(t *testing.T) {
	n := open(t)
	c, peer := pair(t, n)
	ln, err := n.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	waiting, buf := make(chan error, 1), make([]byte, 4)
	go func() {
		_, err := io.ReadFull(c, buf)
		waiting <- err
	}()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	letGo(t, c)
	if _, err := peer.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil || string(buf) != "ping" {
		t.Errorf("read %q, %v", buf, err)
	}
	if err := c.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read past the deadline: %v", err)
	}
	if _, err := n.Dial(t.Context(), ln.Addr().String()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) { // the pending connection is that of the client refused above
		t.Errorf("accept: %v", err)
	}
}

// The error of a closed connection is net.ErrClosed with the connection's addresses.
func TestClosed(t *testing.T) {
	c, peer := pair(t, open(t))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := peer.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the peer reads %d bytes, %v", n, err)
	}
	for what, f := range map[string]func() error{
		"read":           func() error { _, err := c.Read(make([]byte, 1)); return err },
		"write":          func() error { _, err := c.Write([]byte("x")); return err },
		"half close":     c.CloseWrite,
		"close":          c.Close,
		"deadline":       func() error { return c.SetDeadline(time.Time{}) },
		"read deadline":  func() error { return c.SetReadDeadline(time.Time{}) },
		"write deadline": func() error { return c.SetWriteDeadline(time.Time{}) },
	} {
		if err := f(); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), peer.LocalAddr().String()) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A reset by the peer is an error, and not io.EOF.
func TestReset(t *testing.T) {
	c, peer := pair(t, open(t))
	if err := errors.Join(peer.SetLinger(0), peer.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write: %v", err)
	}
}

// Connections are opened and closed, and their descriptor numbers are used again: no connection
// gets another one's bytes, and no descriptor leaks.
func TestNumbersAreUsedAgain(t *testing.T) {
	_, _ = pair(t, open(t)) // so that descriptors that the process opens once are open
	before := descriptors(t)
	n, err := New(transport.TCP())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := n.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	var dialed sync.WaitGroup
	for caller := range byte(8) {
		dialed.Go(func() {
			for i := range 100 {
				if err := visit(n, ln.Addr().String(), bytes.Repeat([]byte{caller, byte(i)}, 1+i*i), i%3 == 0); err != nil {
					t.Errorf("connection %d of %d: %v", i, caller, err)
				}
			}
		})
	}
	dialed.Wait()
	if err := errors.Join(ln.Close(), n.Close()); err != nil {
		t.Error(err)
	}
	served.Wait()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

// visit sends words, and closes the connection before or after they have come back.
func visit(n *Transport, address string, words []byte, early bool) error {
	c, err := n.Dial(context.Background(), address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write(words); err != nil || early {
		return err
	}
	if err := c.(*conn).CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(c)
	if err == nil && !bytes.Equal(got, words) {
		err = fmt.Errorf("%d other bytes than these %d came back", len(got), len(words))
	}
	return err
}

// descriptors returns the number of open descriptors of the process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Programs that are started inherit no connection, which would stay open with them.
func TestNotInherited(t *testing.T) {
	c, _ := pair(t, open(t))
	copied, err := duplicate(c.fd)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(copied)
	for what, fd := range map[string]int{"the connection": c.fd, "its copy": copied} {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
			t.Errorf("%s: flags %d, %v", what, flags, errno)
		}
	}
}

// An engine that closes descriptors that it does not own is detected.
func TestProofFindsAClosingEngine(t *testing.T) {
	l := open(t).loop
	p, err := newProof()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.begun(p); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Close(p.fd); err != nil { // as such an engine would do
		t.Fatal(err)
	}
	if err := p.check(); err == nil || !strings.Contains(err.Error(), "not its own") {
		t.Errorf("the proof holds: %v", err)
	}
}

func TestInnerTransportWithoutSockets(t *testing.T) {
	mem := transport.NewMemory()
	ln, err := mem.Listen(t.Context(), "there")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			_ = c.Close()
		}
	}()
	n, err := New(mem)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, err := n.Dial(t.Context(), "there"); err == nil || !strings.Contains(err.Error(), "want a socket") {
		t.Errorf("dial: %v", err)
	}
}

// transport.Wrap treats the connection as the socket that it is: TryWrite does not wait.
func TestSessionsWriteWithoutWaiting(t *testing.T) {
	c, peer := pair(t, open(t))
	wrapped := transport.Wrap(c)
	words := bytes.Repeat([]byte("words"), 10_000_000)
	n, err := wrapped.TryWrite(words)
	if n == 0 || n == len(words) || err != nil || c.hasPlain() {
		t.Fatalf("wrote %d bytes without waiting, %v", n, err)
	}
	rest := make(chan error, 1)
	go func() {
		_, err := wrapped.WriteBy(words[n:], time.Now().Add(patience))
		rest <- errors.Join(err, c.CloseWrite())
	}()
	if got, err := io.ReadAll(peer); err != nil || !bytes.Equal(got, words) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(words), err)
	}
	if err := <-rest; err != nil {
		t.Error(err)
	}
}

// ReadLazy holds no buffer while it waits for bytes, or for the end.
func TestSessionsWaitWithoutABuffer(t *testing.T) {
	c, peer := pair(t, open(t))
	wrapped := transport.Wrap(c)
	var l lender
	for _, word := range []string{"one", "two", "three"} {
		sent := make(chan error, 1)
		go func() {
			_, err := peer.Write([]byte(word))
			sent <- err
		}()
		buf, n, err := wrapped.ReadLazy(&l)
		if err != nil || string(buf[:n]) != word {
			t.Fatalf("read %q, %v", buf[:n], err)
		}
		l.Give(buf)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := wrapped.ReadLazy(&l); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if l.taken != 0 {
		t.Errorf("%d buffers were kept", l.taken)
	}
}

// The raw connection of a closed connection returns net.ErrClosed.
func TestRawOfAClosedConnection(t *testing.T) {
	c, _ := pair(t, open(t))
	raw := c.Raw()
	number := 0
	if err := raw.Control(func(fd uintptr) { number = int(fd) }); err != nil || number != c.fd {
		t.Errorf("the descriptor is %d, want %d, %v", number, c.fd, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	never := func(uintptr) bool { t.Error("the step was taken"); return true }
	for what, err := range map[string]error{"read": raw.Read(never), "write": raw.Write(never), "control": raw.Control(func(fd uintptr) { never(fd) })} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// lender counts the buffers that it has lent.
type lender struct{ taken int }

func (l *lender) Take() []byte { l.taken++; return make([]byte, 100) }
func (l *lender) Give([]byte)  { l.taken-- }
