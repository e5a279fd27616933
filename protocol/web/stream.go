package web

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tandem-rpc/tandem"
)

// messages is the [tandem.MessageStream] of a call.
type messages struct{ x *exchange }

var errStreamOver = tandem.Errorf(tandem.Canceled, "the stream is over: its method has returned, or closed it")

// Context ends with the call, and at its deadline.
func (m *messages) Context() context.Context { return m.x.bounds() }

// bounds returns the context of a stream, which ends at the call's deadline. connect knows
// the client's deadline only; the server's or the method's may be earlier, and is known
// when the method begins.
func (x *exchange) bounds() context.Context {
	x.bound.Do(func() {
		var cancel context.CancelFunc
		if at := x.call.Deadline; at.IsZero() {
			x.within, cancel = context.WithCancel(x.ctx)
		} else {
			x.within, cancel = context.WithDeadline(x.ctx, at)
		}
		stop := context.AfterFunc(x.within, x.expire)
		x.unbind = func() {
			stop()
			cancel()
		}
	})
	return x.within
}

// overdue returns an error if the deadline of a stream's call has passed.
func (x *exchange) overdue() error {
	if err := x.bounds().Err(); errors.Is(err, context.DeadlineExceeded) {
		return tandem.AsError(err)
	}
	return nil
}

// expire ends what waits for the client when the deadline has passed: receiving at once,
// sending after the stall timeout, since a message may be partly sent.
func (x *exchange) expire() {
	x.ending.Lock()
	defer x.ending.Unlock()
	if x.finished.Load() || x.overdue() == nil { // the call has ended, or the client is gone
		return
	}
	if x.receiving.Load() {
		_ = x.control.SetReadDeadline(time.Unix(1, 0))
	}
	if !x.sending.TryLock() {
		_ = x.control.SetWriteDeadline(time.Now().Add(x.conn.StallTimeout()))
		return
	}
	x.sending.Unlock()
}

// finish marks a stream as finished: no more reads or writes.
func (x *exchange) finish() {
	x.ending.Lock()
	defer x.ending.Unlock()
	x.finished.Store(true)
	if x.method.Kind == tandem.Streaming || x.only {
		x.bounds()
		x.unbind()
	}
}

// SendMsg encodes and sends v.
func (m *messages) SendMsg(v any) error {
	x := m.x
	if err := x.awaitMessage(); err != nil {
		return x.inTime(err)
	}
	if x.direct != nil {
		return x.sendDirect(v)
	}
	b, err := x.encode(v)
	if err != nil {
		return err
	}
	return x.send(&message{b: b})
}

// send sends a message, or only the header if it is nil.
func (x *exchange) send(m *message) error {
	if err := x.awaitMessage(); err != nil {
		return x.inTime(err)
	}
	x.sending.Lock()
	defer x.sending.Unlock()
	if x.finished.Load() {
		return errStreamOver
	}
	if err := x.overdue(); err != nil {
		return err
	}
	if !x.sent {
		x.sent = true
		addHeader(x.stream.ResponseHeader(), x.header)
	} else if m == nil {
		return nil
	}
	if m == nil {
		return x.inTime(x.stream.Send(nil))
	}
	return x.inTime(x.stream.Send(m))
}

// inTime converts an error of reading or writing to tandem's; the error is DeadlineExceeded
// if the deadline has passed.
func (x *exchange) inTime(err error) error {
	if err == nil {
		return nil
	}
	if late := x.overdue(); late != nil {
		return late
	}
	return fromConnect(err)
}

// RecvMsg decodes the next message into v.
func (m *messages) RecvMsg(v any) error {
	x := m.x
	if err := x.awaitMessage(); err != nil {
		return x.inTime(err)
	}
	x.memory.Release() // the memory of the previous message
	defer x.releaseLate()
	next, err := x.receive()
	if err != nil {
		return err
	}
	defer x.direct.decoded()
	return x.decode(next, v)
}

// releaseLate releases the memory of a message that a goroutine receives after its method has
// returned: abandon may have released the call's before.
func (x *exchange) releaseLate() {
	if x.finished.Load() {
		x.memory.Release()
	}
}

func (x *exchange) receive() (*message, error) {
	x.receiving.Store(true)
	defer x.receiving.Store(false)
	if x.finished.Load() {
		return nil, errStreamOver
	}
	if err := x.overdue(); err != nil { // after receiving is set, which expire reads
		return nil, err
	}
	var next message
	switch err := x.stream.Receive(&next); {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, x.inTime(err)
	}
	return &next, nil
}

// CloseSend does nothing: the stream ends when the method returns.
func (*messages) CloseSend() error { return nil }

// Close does nothing: the stream ends when the method returns.
func (*messages) Close() error { return nil }
