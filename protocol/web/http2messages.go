package web

import (
	"context"
	"errors"
	"io"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/internal/http2calls"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

// http2Messages is a stream of a client over HTTP/2.
type http2Messages struct {
	*http2calls.Stream

	caller *http2Caller
	ctx    context.Context //nolint:containedctx // the stream's
	call   *tandem.Call    // for its trailer and codec only

	// Used by the receiver only.
	head     *http2.Block
	encoding string
}

// CarryStream opens a stream.
func (h *http2Caller) CarryStream(ctx context.Context, r *client.Request) (client.Messages, error) {
	if err := httpcalls.Check(r.Call.Metadata, true); err != nil {
		return nil, err
	}
	st, err := h.streams.Open(ctx, h.header(nil, r.Call, false), h.remote.MaxMessage)
	if err != nil {
		return nil, h.failed(ctx, err)
	}
	return &http2Messages{Stream: st, caller: h, ctx: ctx, call: &tandem.Call{Codec: r.Call.Codec}}, nil
}

// Send sends a message.
func (m *http2Messages) Send(message []byte) error { return m.Stream.Send(0, message) }

// CloseSend ends the request.
func (m *http2Messages) CloseSend() error {
	m.Stream.CloseSend()
	return nil
}

// Receive returns the next message.
func (m *http2Messages) Receive() ([]byte, error) {
	if m.head == nil {
		head, err := m.Head()
		if err != nil {
			return nil, m.failed(err)
		}
		m.head = head
		reportBlock(m.ctx, head)
		if m.encoding, err = m.caller.dialect.begin(head, m.call.Codec); err != nil {
			return nil, err
		}
	}
	flags, message, err := m.Stream.Receive()
	switch {
	case err == io.EOF: //nolint:errorlint // not one that the error of a lost connection wraps
		return nil, m.caller.dialect.end(m.call, m.head, m.Stream.Trailer())
	case err != nil:
		return nil, m.failed(err)
	}
	return m.caller.dialect.message(m, flags, message)
}

// failed converts the error of a stream that has no proper end.
func (m *http2Messages) failed(err error) error {
	if errors.Is(err, http2calls.ErrCut) {
		if trailer := m.Stream.Trailer(); trailer != nil { // why the server has stopped there
			if err := m.caller.dialect.end(m.call, m.head, trailer); !errors.Is(err, io.EOF) {
				return err
			}
		}
		return tandem.Errorf(tandem.Internal, "%v", err)
	}
	return m.caller.failed(m.ctx, err)
}

// Trailer returns the response's header and trailer.
func (m *http2Messages) Trailer() tandem.Metadata { return m.call.Trailer }

// Close ends the stream.
func (m *http2Messages) Close() error {
	m.Stream.Close()
	return nil
}
