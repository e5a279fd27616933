package session

import (
	"errors"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/buffer"
)

// The memory of large requests is reserved from the server's budget: the first block of a
// request of several blocks, and the whole request before the peer gets credit for more; a
// message that is copied for a goroutine of its own; the decompressed message; and the memory
// that decoding takes. Small messages in the reader's buffer are decoded without a reservation.

// holdCopy reserves the n bytes of a message that is copied for a goroutine, unless it is
// small. If wait is true, the goroutine must wait for room before it runs the call.
func (in *Inbound) holdCopy(n int) (wait bool, e *tandem.Error) {
	if n <= budget.Small || in.s.account == nil {
		return false, nil
	}
	in.hold = in.s.account.Hold()
	switch {
	case in.hold.Try(int64(n)):
		return false, nil
	case in.hold.Begin(int64(n)):
		return true, nil
	}
	return false, in.hold.Exhausted(int64(n))
}

// assembled gives back the memory of the pieces once a large message is put together.
func (in *Inbound) assembled(large bool) {
	if large && len(in.Message) > buffer.PieceSize {
		in.hold.Shrink(int64(len(in.Message)))
	}
}

// refuseRun answers a call that can't be run; no code of the application has seen it.
func (s *Session) refuseRun(in *Inbound, e *tandem.Error) {
	var a answer
	in.outcome(&a, &in.call, e)
	s.answer(&a)
}

// Reserve reserves n bytes more for the call, and waits for them at most until its deadline.
func (in *Inbound) Reserve(n int64) error {
	if n == 0 || in.s.account == nil {
		return nil
	}
	if in.hold == nil {
		in.hold = in.s.account.Hold()
	}
	if in.hold.Try(n) {
		return nil
	}
	return in.grow(n)
}

// grow waits for n bytes more. A call that the gate counts as running gives up its slot for good.
func (in *Inbound) grow(n int64) error {
	began := in.s.now()
	in.s.await(in, AwaitsMemory)
	defer func() {
		in.s.await(in, AwaitsNothing)
		in.waited += in.s.now() - began
	}()
	if gate := in.s.env.cfg.Gate; gate != nil && in.apart && in.stream == nil && in.method.target.load != nil {
		in.slot.Park(gate, began).Tell()
	}
	return in.hold.Grow(in, n, in.s.env.cfg.Stall)
}

// Return gives n bytes back.
func (in *Inbound) Return(n int64) { in.hold.Shrink(n) }

// Expect reserves the n bytes that a codec expects decoding to take, or refuses them.
func (in *Inbound) Expect(n int64) error {
	if in.hold == nil {
		in.hold = in.s.account.Hold()
	}
	return in.s.env.expect(in, in.hold, n)
}

// expect reserves n bytes for decoding, or refuses them if they are too many together with
// those of the message's other values.
func (e *Env) expect(r budget.Reserver, h *budget.Hold, n int64) error {
	if all, most := h.Expect(n), e.cfg.MaxDecoded; most > 0 && all > most {
		return budget.TooMuch(all, most)
	}
	return r.Reserve(n)
}

// Reserve reserves n bytes more for a message of a stream that the peer has opened.
func (st *Stream) Reserve(n int64) error {
	if n == 0 || st.s.account == nil || st.in == nil {
		return nil
	}
	h, err := st.holding()
	if err != nil {
		return err
	}
	return h.Grow(st.ctx, n, st.s.env.cfg.Stall)
}

// holding returns the hold of the stream's message, and an error if the stream is over.
func (st *Stream) holding() (*budget.Hold, error) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.m.IsOver() { // called by a goroutine that has outlived the handler
		return nil, errStreamOver
	}
	if st.hold == nil {
		st.hold = st.s.account.Hold()
	}
	return st.hold, nil
}

// Return gives n bytes back.
func (st *Stream) Return(n int64) { st.held().Shrink(n) }

// Expect is Inbound.Expect for a message of the stream.
func (st *Stream) Expect(n int64) error {
	h, err := st.holding()
	if err != nil {
		return err
	}
	return st.s.env.expect(st, h, n)
}

func (st *Stream) held() *budget.Hold {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.hold
}

// releaseHold gives back all memory that is reserved for the stream.
func (st *Stream) releaseHold() { st.held().Release() }

var errStreamOver = &tandem.Error{Code: tandem.Canceled, Message: "the stream is over: its method has returned"}

// memoryError returns err as it is if it says that there is no memory, or no time to wait for
// it; nil for other errors.
func memoryError(err error) *tandem.Error {
	if e, ok := errors.AsType[*tandem.Error](err); ok && e.NotExecuted {
		return e
	}
	return nil
}
