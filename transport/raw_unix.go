//go:build unix

package transport

import (
	"errors"
	"io"
	"os"
	"syscall"
)

const nonBlocking = true

// lazyRead is one pending ReadLazy: its step runs inside RawConn.Read.
type lazyRead struct {
	step   func(fd uintptr) bool
	lender Lender
	buf    []byte
	n      int
	err    error
	once   bool // do not wait
}

// result ends the ReadLazy. err is the error of RawConn.Read.
func (r *lazyRead) result(err error) ([]byte, int, error) {
	buf, n := r.buf, r.n
	if err == nil {
		err = r.err
	}
	r.buf, r.n, r.err = nil, 0, nil
	if err == nil && n == 0 && buf != nil {
		err = io.EOF
	}
	if err != nil {
		if buf != nil {
			r.lender.Give(buf)
		}
		return nil, 0, err
	}
	return buf, n, nil
}

// run tries one read. It must try before it waits: the poller is edge-triggered, and the event
// for bytes that are already there may have passed.
func (r *lazyRead) run(fd uintptr) bool {
	r.buf = r.lender.Take()
	for {
		r.n, r.err = syscall.Read(int(fd), r.buf)
		if !errors.Is(r.err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(r.err, syscall.EAGAIN) {
		r.lender.Give(r.buf)
		r.buf, r.n, r.err = nil, 0, nil
		return r.once
	}
	if r.err != nil {
		r.n, r.err = 0, os.NewSyscallError("read", r.err)
	}
	return true
}

type tryWrite struct {
	step func(fd uintptr) bool
	p    []byte
	n    int
	err  error
}

func (w *tryWrite) write(raw syscall.RawConn, p []byte) (int, error) {
	w.p, w.n, w.err = p, 0, nil
	err := raw.Write(w.step)
	w.p = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

func (w *tryWrite) run(fd uintptr) bool {
	for w.n < len(w.p) {
		n, err := syscall.Write(int(fd), w.p[w.n:])
		switch {
		case err == nil:
			w.n += n
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return true
		default:
			w.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
