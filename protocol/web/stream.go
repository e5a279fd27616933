package web

import (
	"context"
	"errors"
	"io"

	"github.com/tandem-rpc/tandem"
)

// messages is the stream of a call.
type messages struct{ x *exchange }

var errStreamOver = tandem.Errorf(tandem.Canceled, "the stream is over: its method has returned, or closed it")

// Context ends with the call.
func (m *messages) Context() context.Context { return m.x.ctx }

// SendMsg encodes and sends v.
func (m *messages) SendMsg(v any) error {
	x := m.x
	b, err := encode(x.codec, v)
	if err != nil {
		return err
	}
	return x.send(&message{b})
}

// send sends a message, or only the header if it is nil.
func (x *exchange) send(m *message) error {
	if err := x.wish(); err != nil {
		return err
	}
	x.sending.Lock()
	defer x.sending.Unlock()
	if x.finished.Load() {
		return errStreamOver
	}
	if !x.sent {
		x.sent = true
		addHeader(x.stream.ResponseHeader(), x.header)
	} else if m == nil {
		return nil
	}
	if m == nil {
		return inward(x.stream.Send(nil))
	}
	return inward(x.stream.Send(m))
}

// RecvMsg decodes the next message into v.
func (m *messages) RecvMsg(v any) error {
	x := m.x
	if err := x.wish(); err != nil {
		return err
	}
	b, err := x.receive()
	if err != nil {
		return err
	}
	return decode(x.codec, b, v)
}

func (x *exchange) receive() ([]byte, error) {
	x.receiving.Store(true)
	defer x.receiving.Store(false)
	if x.finished.Load() {
		return nil, errStreamOver
	}
	var next message
	switch err := x.stream.Receive(&next); {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, inward(err)
	}
	return next.b, nil
}

// CloseSend does nothing: the client learns of the end when the method returns.
func (*messages) CloseSend() error { return nil }

// Close does nothing: the stream ends when the method returns.
func (*messages) Close() error { return nil }
