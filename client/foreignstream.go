package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
)

// stream opens a stream. It counts as a call in flight until it has ended.
func (f *foreign) stream(ctx context.Context, attempt *tandem.Call, carrier StreamCarrier) error {
	done := sync.OnceFunc(f.done)
	open := func(ctx context.Context) (Messages, error) {
		m, err := carrier.CarryStream(ctx, &Request{Call: attempt})
		if err != nil {
			return nil, f.conclude(err)
		}
		return &foreignMessages{m, f, done}, nil
	}
	err := call.CarryStream(ctx, attempt, f.peer, func() (call.OpenedStream, error) {
		return openCarried(ctx, f.client.env, attempt, f.closing, open)
	})
	if err != nil {
		done()
	}
	return err
}

// foreignMessages notes from a stream's messages and errors whether its connection is alive.
type foreignMessages struct {
	Messages

	at   *foreign
	done func()
}

// Send sends a message.
func (m *foreignMessages) Send(message []byte) error {
	err := m.Messages.Send(message)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return m.at.conclude(err)
}

// Receive returns the next message.
func (m *foreignMessages) Receive() ([]byte, error) {
	message, err := m.Messages.Receive()
	if err == nil || errors.Is(err, io.EOF) {
		m.at.noteLife()
		return message, err
	}
	return nil, m.at.conclude(err)
}

// Close releases the stream.
func (m *foreignMessages) Close() error {
	defer m.done()
	return m.Messages.Close()
}
