package nbio

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/lesismal/nbio"

	"github.com/tandem-rpc/tandem"
)

// conn is a socket that is read when the engine reports bytes. It owns its descriptor: the
// engine only watches it.
type conn struct {
	fd            int
	watched       *nbio.Conn
	local, remote net.Addr

	wake chan struct{} // has an element when the engine has reported bytes or an end
	left chan struct{} // closed when the engine has released the connection
	done chan struct{} // closed by Close

	reading, writing sync.Mutex // held while fd is read, or written
	in, out          transfer
	readAlarm        alarm

	mu              sync.Mutex
	closed          bool
	readBy, writeBy time.Time
	plain           *os.File // the same socket with Go's poller; nil until it is needed
}

var _ tandem.RawConn = (*conn)(nil)

// newConn makes a connection of s, and closes s. The engine does not watch it yet.
func newConn(s socket) (*conn, error) {
	watched, err := nbio.NBConn(stranger{s})
	if err != nil {
		return nil, err
	}
	c := &conn{
		watched: watched, local: s.LocalAddr(), remote: s.RemoteAddr(),
		wake: make(chan struct{}, 1), left: make(chan struct{}), done: make(chan struct{}),
	}
	raw, err := watched.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := raw.Control(func(fd uintptr) { c.fd = int(fd) }); err != nil {
		return nil, err
	}
	syscall.CloseOnExec(c.fd)
	c.in.step, c.out.step = c.in.read, c.out.write
	c.readAlarm.set(time.Time{})
	return c, nil
}

// ready is called by the engine when there are bytes to read, or an end.
func (c *conn) ready() {
	select {
	case c.wake <- struct{}{}:
	default: // the reader has not taken the last one
	}
}

// leave is the engine's last call: it releases the connection.
func (c *conn) leave() { close(c.left) }

// Raw returns the descriptor, for callers that read and write it without this connection's Read
// and Write, and wait by its methods.
func (c *conn) Raw() syscall.RawConn { return raw{c} }

type raw struct{ *conn }

func (r raw) Read(step func(uintptr) bool) error {
	r.reading.Lock()
	defer r.reading.Unlock()
	return r.failed("read", r.readUntil(step))
}

func (r raw) Write(step func(uintptr) bool) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.failed("write", r.writeUntil(step))
}

func (r raw) Control(f func(uintptr)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.failed("control", net.ErrClosed)
	}
	f(uintptr(r.fd))
	return nil
}

// readUntil calls step whenever there may be bytes to read, until it returns true. c.reading is
// held.
func (c *conn) readUntil(step func(uintptr) bool) error {
	for {
		rung, left := c.readAlarm.rung(), isClosed(c.left)
		if err := c.over(rung); err != nil {
			return err
		}
		if step(uintptr(c.fd)) {
			return nil
		}
		if left { // the engine wakes no reader any more; an end is read without waiting
			return c.plainly(syscall.RawConn.Read, step)
		}
		select {
		case <-c.wake:
		case <-c.left:
		case <-rung:
		case <-c.done:
		}
	}
}

// over returns the error if the connection is closed, or its read deadline has passed.
func (c *conn) over(rung <-chan struct{}) error {
	switch {
	case isClosed(c.done):
		return net.ErrClosed
	case isClosed(rung):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// writeUntil calls step at once, and then whenever the socket may take more, until it returns
// true. c.writing is held.
func (c *conn) writeUntil(step func(uintptr) bool) error {
	if err := c.mayWrite(); err != nil {
		return err
	}
	if step(uintptr(c.fd)) {
		return nil
	}
	return c.plainly(syscall.RawConn.Write, step)
}

func (c *conn) mayWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case !c.writeBy.IsZero() && time.Until(c.writeBy) <= 0:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// plainly waits by Go's poller: until a full socket takes more, or after the engine has
// released the connection.
func (c *conn) plainly(wait func(syscall.RawConn, func(uintptr) bool) error, step func(uintptr) bool) error {
	f, err := c.file()
	if err != nil {
		return err
	}
	r, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return wait(r, step)
}

// transfer is the state of a Read or Write. A connection has one of each, so that their steps
// are allocated once.
type transfer struct {
	p    []byte
	n    int
	err  error
	step func(fd uintptr) bool
}

func (t *transfer) read(fd uintptr) bool {
	n, err := retried(syscall.Read, int(fd), t.p)
	if errors.Is(err, syscall.EAGAIN) {
		return false
	}
	t.n, t.err = max(n, 0), os.NewSyscallError("read", err)
	return true
}

func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.p) {
		n, err := retried(syscall.Write, int(fd), t.p[t.n:])
		if errors.Is(err, syscall.EAGAIN) {
			return false
		}
		if err != nil {
			t.err = os.NewSyscallError("write", err)
			return true
		}
		t.n += n
	}
	return true
}

// end returns the result and clears the transfer. err is the error of waiting, if there was
// one.
func (t *transfer) end(err error) (int, error) {
	n := t.n
	if err == nil {
		err = t.err
	}
	t.p, t.n, t.err = nil, 0, nil
	return n, err
}

func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	c.in.p = p
	n, err := c.in.end(c.readUntil(c.in.step))
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, c.failed("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.out.p = p
	n, err := c.out.end(c.writeUntil(c.out.step))
	return n, c.failed("write", err)
}

// file returns the socket with Go's poller. It is kept: a socket that was full once will be
// full again.
func (c *conn) file() (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.plain != nil {
		return c.plain, nil
	}
	fd, err := duplicate(c.fd)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket") // non-blocking as the socket is, so it has a poller
	if err := errors.Join(f.SetReadDeadline(c.readBy), f.SetWriteDeadline(c.writeBy)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.plain = f
	return f, nil
}

// duplicate is dup(2) with close-on-exec: programs that are started do not inherit the copy.
func duplicate(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	d, err := syscall.Dup(fd)
	if err != nil {
		return 0, os.NewSyscallError("dup", err)
	}
	syscall.CloseOnExec(d)
	return d, nil
}

// retried repeats a read or write while signals interrupt it.
func retried(step func(int, []byte) (int, error), fd int, p []byte) (int, error) {
	for {
		n, err := step(fd, p)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// CloseWrite ends the sending direction.
func (c *conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.failed("close", net.ErrClosed)
	}
	return c.failed("close", os.NewSyscallError("shutdown", syscall.Shutdown(c.fd, syscall.SHUT_WR)))
}

// Close ends the connection, and every read and write that waits.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.failed("close", net.ErrClosed)
	}
	c.closed = true
	close(c.done)
	plain := c.plain
	c.mu.Unlock()
	var err error
	if plain != nil {
		err = plain.Close()
	}
	c.readAlarm.set(time.Time{})
	_ = c.watched.Close() // returns no error, and the engine may have released it before
	<-c.left              // the engine's table has no entry for the number any more
	c.reading.Lock()
	defer c.reading.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	return errors.Join(err, os.NewSyscallError("close", syscall.Close(c.fd)))
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.failed("set", net.ErrClosed)
	}
	c.readBy = t
	c.readAlarm.set(t)
	if c.plain != nil {
		return c.plain.SetReadDeadline(t)
	}
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.failed("set", net.ErrClosed)
	}
	c.writeBy = t
	if c.plain != nil {
		return c.plain.SetWriteDeadline(t)
	}
	return nil
}

// failed adds to an error, if there is one, the operation and the addresses, as package net
// does.
func (c *conn) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	if isClosed(c.done) {
		err = net.ErrClosed // whatever error Go's poller returns
	}
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}
