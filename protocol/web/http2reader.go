package web

import (
	"runtime"
	"sync"
	"time"
)

// http2Reader reads an [http2Conn]. Short calls run in the goroutine that reads; when one takes long
// after all, another goroutine goes on with the reader.
type http2Reader struct {
	h      *http2Conn
	resume func() // r.loop, in another goroutine

	buf   []byte // nil while nothing is read
	kept  int    // bytes at the beginning of buf of a frame that is not complete
	rest  []byte // the same bytes while there is no buf
	small bool   // buffers are small, because the connection holds one while it is idle

	todo []*quickCall // of the last read
	next int          // the first of todo that has not begun
	err  error        // why reading ends, when todo is done

	waited bool      // the last read found nothing at first
	began  time.Time // when the reader last waited or yielded
}

// Sizes of buffers, each of which takes any frame. Frames of large messages have 16 KiB, and what is
// left of one must be read again: a buffer takes several, so that this is a small part.
const (
	smallBuffer = 32 << 10
	largeBuffer = 128 << 10
)

// The buffers of connections that read. An idle connection holds none if it can wait without one; those
// with TLS can't, and read at most 16 KiB at a time anyway.
//
//nolint:gochecknoglobals // shared memory
var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}
)

func newHTTP2Reader(h *http2Conn) *http2Reader {
	r := &http2Reader{h: h, small: h.Peer().TLS != nil, rest: h.held}
	h.held = nil
	r.resume = r.loop
	return r
}

// Take returns the memory to read into.
func (r *http2Reader) Take() []byte {
	if r.buf == nil {
		if r.small {
			r.buf = smallBuffers.Get().(*[smallBuffer]byte)[:] //nolint:forcetypeassert // nothing else is put
		} else {
			r.buf = largeBuffers.Get().(*[largeBuffer]byte)[:] //nolint:forcetypeassert // nothing else is put
		}
		r.kept = copy(r.buf, r.rest)
	}
	return r.buf[r.kept:]
}

// Give takes the memory back, as there was nothing to read.
func (r *http2Reader) Give([]byte) {
	r.waited = true
	if r.kept == 0 {
		r.rest = nil
	} else {
		r.rest = append(r.rest[:0], r.buf[:r.kept]...)
	}
	r.release()
}

func (r *http2Reader) release() {
	if r.small {
		smallBuffers.Put((*[smallBuffer]byte)(r.buf))
	} else {
		largeBuffers.Put((*[largeBuffer]byte)(r.buf))
	}
	r.buf = nil
}

// longestHold is how long a reader runs without waiting or yielding.
const longestHold = 250 * time.Microsecond

// yield lets other goroutines run when this one has not waited for a while, as the native session's
// reader does: else the bytes of other connections might stay in the kernel.
func (r *http2Reader) yield(now time.Time) {
	switch {
	case r.waited:
		r.began = now
	case now.Sub(r.began) > longestHold:
		runtime.Gosched()
		r.began = time.Now()
	}
}

// loop reads until the connection ends, or another goroutine reads.
func (r *http2Reader) loop() {
	h := r.h
	for {
		for r.next < len(r.todo) {
			q := r.todo[r.next]
			r.todo[r.next] = nil
			r.next++
			if !q.run(r.resume) { // r is another goroutine's
				h.flush()
				h.endIfDone()
				return
			}
		}
		h.tryFlush()
		h.endIfDone()
		if r.err != nil || h.isClosed() {
			h.readErr = r.err
			close(h.readOver)
			return
		}
		r.read()
	}
}

// read reads once, and handles the frames that are complete.
func (r *http2Reader) read() {
	var n int
	r.waited = false
	_, n, r.err = r.h.conn.Conn.ReadLazy(r)
	if n > 0 && !r.h.isClosed() {
		if failed := r.receive(n); failed != nil {
			r.err = failed
		}
	}
	if r.kept == 0 && r.buf != nil {
		r.rest = nil
		r.release()
	}
}

// receive handles the frames at the beginning of the buffer, to which n bytes were added.
func (r *http2Reader) receive(n int) error {
	h, now := r.h, time.Now()
	r.yield(now)
	b := r.buf[:r.kept+n]
	h.machine.Lock()
	passed := now.Sub(h.calmed).Truncate(calmEvery)
	h.m.Calm(int(passed / calmEvery))
	h.calmed = h.calmed.Add(passed)
	h.heard, h.asked = now, time.Time{}
	used, events, err := h.m.Receive(b)
	begun, quick := h.handleLocked(events)
	clear(events) // what they refer to may go when the calls have ended
	h.Midway(used < len(b) || h.m.Midway())
	h.machine.Unlock()
	r.kept = copy(r.buf, b[used:])
	r.todo, r.next = quick, 0
	h.mu.Lock()
	waiting := h.arrivedLocked(n)
	h.mu.Unlock()
	extend(waiting, h.StallTimeout())
	for _, s := range begun {
		h.requests.Go(s.serve)
	}
	return err
}
