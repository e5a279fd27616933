package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
)

// memWindow is how many bytes an in-memory connection holds in each direction.
const memWindow = 64 << 10

// Memory is a network of its own inside the process, for tests and for
// services that share one. It is a [tandem.Transport]; addresses are any
// strings. It is safe for concurrent use and works under testing/synctest.
type Memory struct {
	mu        sync.Mutex
	listeners map[string]*memListener
}

var _ tandem.Transport = (*Memory)(nil)

// NewMemory returns a network without listeners.
func NewMemory() *Memory { return &Memory{listeners: map[string]*memListener{}} }

// Listen opens a listener; an address in use is an error.
func (m *Memory) Listen(_ context.Context, address string) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: "mem", Addr: memAddr(address), Err: errors.New("address in use")}
	}
	ln := &memListener{net: m, addr: memAddr(address), accept: make(chan net.Conn), closed: make(chan struct{})}
	m.listeners[address] = ln
	return ln, nil
}

// Dial connects to a listener, waiting until it accepts.
func (m *Memory) Dial(ctx context.Context, address string) (net.Conn, error) {
	m.mu.Lock()
	ln := m.listeners[address]
	m.mu.Unlock()
	if ln == nil {
		return nil, &net.OpError{Op: "dial", Net: "mem", Addr: memAddr(address), Err: errors.New("connection refused")}
	}
	client, server := Pipe(memAddr("client of "+address), ln.addr)
	select {
	case ln.accept <- server:
		return client, nil
	case <-ln.closed:
		return nil, &net.OpError{Op: "dial", Net: "mem", Addr: ln.addr, Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "mem", Addr: ln.addr, Err: ctx.Err()}
	}
}

type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }

type memListener struct {
	net    *Memory
	addr   net.Addr
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "mem", Addr: l.addr, Err: net.ErrClosed}
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		delete(l.net.listeners, l.addr.String())
		l.net.mu.Unlock()
		close(l.closed)
	})
	return nil
}

func (l *memListener) Addr() net.Addr { return l.addr }

// Pipe returns the two ends of an in-memory connection. Unlike those of net.Pipe they hold 64
// KiB in each direction, so a write does not wait for a read.
func Pipe(a, b net.Addr) (net.Conn, net.Conn) {
	ab, ba := newHalf(), newHalf()
	return &memConn{in: ba, out: ab, local: a, remote: b}, &memConn{in: ab, out: ba, local: b, remote: a}
}

// memConn is one end of an in-memory connection.
type memConn struct {
	in, out       *half
	local, remote net.Addr
}

func (c *memConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *memConn) LocalAddr() net.Addr         { return c.local }
func (c *memConn) RemoteAddr() net.Addr        { return c.remote }

func (c *memConn) Close() error {
	c.out.close(io.EOF, false)
	c.in.close(net.ErrClosed, true)
	return nil
}

// CloseWrite ends the sending direction.
func (c *memConn) CloseWrite() error {
	c.out.close(io.EOF, false)
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// half is one direction of a connection: a bounded buffer with a reader and a writer.
type half struct {
	mu      sync.Mutex
	cond    *sync.Cond
	buf     []byte
	end     error // returned by read when buf is empty
	broken  bool  // the reader has closed: writing fails
	readBy  deadline
	writeBy deadline
}

// deadline wakes the waiting goroutines of a half when its time has come.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newHalf() *half {
	h := &half{}
	h.cond = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 || h.broken {
		if h.end != nil {
			return 0, h.end
		}
		if h.readBy.passed() {
			return 0, os.ErrDeadlineExceeded
		}
		h.cond.Wait()
	}
	n := copy(p, h.buf)
	h.buf = h.buf[n:]
	if len(h.buf) == 0 {
		h.buf = nil
	}
	h.cond.Broadcast()
	return n, nil
}

func (h *half) write(p []byte) (done int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.broken || h.end != nil:
			return done, fmt.Errorf("mem: write: %w", io.ErrClosedPipe)
		case h.writeBy.passed():
			return done, os.ErrDeadlineExceeded
		}
		n := min(len(p)-done, memWindow-len(h.buf))
		h.buf = append(h.buf, p[done:done+n]...)
		done += n
		if n > 0 {
			h.cond.Broadcast()
		}
		if done == len(p) {
			return done, nil
		}
		h.cond.Wait()
	}
}

func (h *half) close(end error, broken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end == nil || broken {
		h.end = end
	}
	h.broken = h.broken || broken
	h.readBy.stop()
	h.writeBy.stop()
	h.cond.Broadcast()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (h *half) setDeadline(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stop()
	d.at, d.timer = t, nil
	if left := time.Until(t); !t.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, func() {
			h.mu.Lock() // else a goroutine that has checked the time and does not wait yet would miss it
			defer h.mu.Unlock()
			h.cond.Broadcast()
		})
	}
	h.cond.Broadcast()
}
