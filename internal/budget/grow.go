package budget

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Exhausted is the error of a request that finds no room for n bytes.
func (h *Hold) Exhausted(n int64) *tandem.Error {
	e := tandem.Errorf(tandem.ResourceExhausted,
		"request of %d bytes: the memory of requests is used up: try again later, or raise server.WithMemory", n)
	e.NotExecuted, e.RetryAfter = true, retryAfter
	return e
}

// TooMuch is the error of a request that takes about n bytes when it is decoded. The limit is
// most bytes.
func TooMuch(n, most int64) *tandem.Error {
	e := tandem.Errorf(tandem.ResourceExhausted,
		"message takes about %d bytes of memory when decoded, limit %d: send less at a time, or raise server.WithMaxDecoded", n, most)
	e.NotExecuted = true
	return e
}

// retryAfter is the RetryAfter of a refused request.
const retryAfter = 100 * time.Millisecond

// Grow holds n bytes more. It waits for room until ctx ends. When the budget has served no
// request for as long as patience, Grow refuses younger ones for this one; if there are none
// and ctx has no deadline, it gives up. Its error says that the request was not executed.
func (h *Hold) Grow(ctx context.Context, n int64, patience time.Duration) error {
	return h.GrowReading(ctx, n, patience, nothingToRead)
}

func nothingToRead() error { return io.EOF }

// GrowReading is Grow for a request that must not leave its message unread while it waits. Until
// there is room it calls read, which reads a part of the message and counts it with Begin; after
// io.EOF it waits as Grow does. With any other error of read, it stops waiting and returns that
// error. ctx does not end a read.
func (h *Hold) GrowReading(ctx context.Context, n int64, patience time.Duration, read func() error) error {
	if h == nil {
		return nil
	}
	answer := make(chan bool, 1)
	if h.Ask(n, func(granted bool) { answer <- granted }) {
		return nil
	}
	for ctx.Err() == nil && len(answer) == 0 {
		if err := read(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return h.abort(n, answer, err)
		}
	}
	return h.await(ctx, n, patience, answer)
}

// await waits for the answer to a request for n bytes, as Grow does.
func (h *Hold) await(ctx context.Context, n int64, patience time.Duration, answer <-chan bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	_, timed := ctx.Deadline()
	for served := h.account.budget.Served(); ; {
		select {
		case granted := <-answer:
			return h.outcome(n, granted)
		case <-ctx.Done():
			e := tandem.AsError(ctx.Err())
			e.NotExecuted = true
			return h.abort(n, answer, e)
		case <-timer.C:
			now := h.account.budget.Served()
			if now == served && !h.Press() && !timed {
				return h.abort(n, answer, h.Exhausted(n))
			}
			served = now
			timer.Reset(patience)
		}
	}
}

// outcome is the result of a wait for n bytes that was granted or refused.
func (h *Hold) outcome(n int64, granted bool) error {
	if granted {
		return nil
	}
	return h.Exhausted(n)
}

// abort stops waiting, and returns err unless the answer has come first. Bytes that are granted at
// the same moment stay held.
func (h *Hold) abort(n int64, answer <-chan bool, err error) error {
	h.account.budget.settle(func(b *Budget) { b.leave(h) })
	select {
	case granted := <-answer:
		return h.outcome(n, granted)
	default: // there is none if the hold was released
		return err
	}
}

// Reserver reserves memory for one request.
type Reserver interface {
	// Reserve holds n bytes more, or returns why the request is refused. It may wait.
	Reserve(n int64) error
	// Return gives n bytes back.
	Return(n int64)
}

// Small is how many bytes a request may take without reserving them: the limits of a
// connection bound how many such requests there are.
const (
	Small    = 4 << 10
	Unpacked = 16 << 10 // how many bytes a message may take without a reservation while it is decompressed
)

// Decompress appends src decompressed, at most limit bytes, to dst. The size is not known
// beforehand: it tries with little room first, and reserves four times as much if that is not
// enough. The bytes of the result stay held.
func Decompress(r Reserver, c tandem.Compressor, dst, src []byte, limit int) ([]byte, error) {
	for room := max(Unpacked, 4*len(src)); ; room *= 4 {
		room = min(room, limit)
		n := int64(room) + int64(room)/2 // the buffer is copied when it grows
		if room <= Unpacked {
			n = 0
		}
		if err := r.Reserve(n); err != nil {
			return dst, err
		}
		out, err := c.Decompress(dst, src, room)
		if err == nil {
			r.Return(max(0, n-int64(len(out)-len(dst))))
			return out, nil
		}
		r.Return(n)
		if room >= limit {
			return dst, err
		}
	}
}
