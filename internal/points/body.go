package points

import (
	"context"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

// pointBody is a call's Body with the plugins that look at messages.
type pointBody struct {
	tandem.Body

	points  *bodyPoints
	ctx     context.Context //nolint:containedctx // the call's
	call    *tandem.Call
	begun   bool
	refused atomic.Pointer[tandem.Error] // the error of a plugin at the arguments
}

// Decode decodes the arguments.
func (b *pointBody) Decode(v any) error {
	return b.receive(v, b.Body.Decode)
}

// receive decodes one message between the points.
func (b *pointBody) receive(v any, decode func(any) error) error {
	if !b.begun { // else the same arguments are decoded again
		err := each(b.points.before, func(to plugin.BeforeRequestBody) error { return to.BeforeRequestBody(b.ctx, b.call) })
		if err != nil {
			return b.refuse(err)
		}
	}
	b.begun = b.call.Kind != tandem.Streaming
	if err := decode(v); err != nil {
		return err
	}
	err := each(b.points.after, func(to plugin.AfterRequestBody) error { return to.AfterRequestBody(b.ctx, b.call, v) })
	if err != nil {
		return b.refuse(err)
	}
	return nil
}

func (b *pointBody) refuse(err error) error {
	e := tandem.AsError(err)
	b.refused.Store(e)
	return e
}

// Encode encodes the reply.
func (b *pointBody) Encode(v any) error { return b.send(v, b.Body.Encode) }

func (b *pointBody) send(v any, encode func(any) error) error {
	reply := v
	if e, ok := v.(*tandem.Encoded); ok && e.Message == nil {
		reply = e.Value
	}
	err := eachAfter(b.points.answer, func(to plugin.BeforeResponse) error { return to.BeforeResponse(b.ctx, b.call, reply, nil) })
	if err != nil {
		return err
	}
	return encode(v)
}

// Stream returns the call's stream.
func (b *pointBody) Stream() tandem.MessageStream {
	s := b.Body.Stream()
	if s == nil {
		return nil
	}
	return &pointStream{s, b}
}

// pointStream is a stream whose messages pass the points.
type pointStream struct {
	tandem.MessageStream

	body *pointBody
}

// RecvMsg receives a message.
func (s *pointStream) RecvMsg(v any) error { return s.body.receive(v, s.MessageStream.RecvMsg) }

// SendMsg sends a message.
func (s *pointStream) SendMsg(v any) error { return s.body.send(v, s.MessageStream.SendMsg) }
