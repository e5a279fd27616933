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
)

// conn is a socket that is read when the engine says so. Its descriptor is its own:
// the engine only watches it.
type conn struct {
	fd            int
	watched       *nbio.Conn
	local, remote net.Addr

	wake chan struct{} // has an element when the engine has seen something
	left chan struct{} // closed when the engine watches no more
	done chan struct{} // closed by Close

	reading, writing sync.Mutex // held while fd is read, or written
	readAlarm        alarm

	mu              sync.Mutex
	closed          bool
	readBy, writeBy time.Time
	plain           *os.File // the same socket with Go's poller; nil until it is needed
}

// newConn makes a connection of s, which it closes. The engine does not watch it yet.
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
	c.readAlarm.set(time.Time{})
	return c, nil
}

// ready is the engine's call when there is something to read, or an end.
func (c *conn) ready() {
	select {
	case c.wake <- struct{}{}:
	default: // the reader has not looked since
	}
}

// leave is the engine's last call.
func (c *conn) leave() { close(c.left) }

func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		rung, left := c.readAlarm.rung(), isClosed(c.left)
		if err := c.over(rung); err != nil {
			return 0, c.failed("read", err)
		}
		n, err := retried(syscall.Read, c.fd, p)
		switch {
		case errors.Is(err, syscall.EAGAIN) && left: // nobody would wake us
			return c.readPlain(p)
		case errors.Is(err, syscall.EAGAIN):
			c.await(rung)
		case err != nil:
			return 0, c.failed("read", os.NewSyscallError("read", err))
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// over says why there is nothing to read any more, or now.
func (c *conn) over(rung <-chan struct{}) error {
	switch {
	case isClosed(c.done):
		return net.ErrClosed
	case isClosed(rung):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// await waits until it is worth while to look again.
func (c *conn) await(rung <-chan struct{}) {
	select {
	case <-c.wake:
	case <-c.left:
	case <-rung:
	case <-c.done:
	}
}

// readPlain reads by Go's poller what goes on without the engine. An end does not
// get here: it is there to be read when the engine lets go.
func (c *conn) readPlain(p []byte) (int, error) {
	f, err := c.file()
	if err != nil {
		return 0, c.failed("read", err)
	}
	n, err := f.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.failed("read", err)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.mayWrite(); err != nil {
		return 0, c.failed("write", err)
	}
	done := 0
	for done < len(p) {
		n, err := retried(syscall.Write, c.fd, p[done:])
		if errors.Is(err, syscall.EAGAIN) {
			n, err = c.writePlain(p[done:])
			return done + n, err
		}
		if err != nil {
			return done, c.failed("write", os.NewSyscallError("write", err))
		}
		done += n
	}
	return done, nil
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

// writePlain writes by Go's poller what the socket does not take at once.
func (c *conn) writePlain(p []byte) (int, error) {
	f, err := c.file()
	if err != nil {
		return 0, c.failed("write", err)
	}
	n, err := f.Write(p)
	if err != nil {
		err = c.failed("write", err)
	}
	return n, err
}

// file returns the socket with Go's poller. It stays: a socket that was full once
// will be again.
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

// duplicate is dup(2), of which no program that is started inherits the result.
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

// retried is a read or write that no signal interrupts.
func retried(step func(int, []byte) (int, error), fd int, p []byte) (int, error) {
	for {
		n, err := step(fd, p)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// CloseWrite ends our direction.
func (c *conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.failed("close", net.ErrClosed)
	}
	if err := syscall.Shutdown(c.fd, syscall.SHUT_WR); err != nil {
		return c.failed("close", os.NewSyscallError("shutdown", err))
	}
	return nil
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
	_ = c.watched.Close() // has no error, and may have been let go before
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

// failed says where an error happened, in the words of package net.
func (c *conn) failed(op string, err error) error {
	if errors.Is(err, os.ErrClosed) {
		err = net.ErrClosed
	} else if p, ok := errors.AsType[*os.PathError](err); ok {
		err = p.Err // its path says nothing
	}
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}
