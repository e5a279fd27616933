package tandem

import (
	"context"
	"errors"
	"io"
	"iter"
)

// MessageStream is a call's stream of messages of any type. One goroutine may send
// while another receives; neither direction may be used by two at a time.
type MessageStream interface {
	// Context returns a context that ends with the stream.
	Context() context.Context
	// SendMsg encodes and sends v. It blocks while the peer's window is full.
	SendMsg(v any) error
	// RecvMsg decodes the next message into v. It returns io.EOF when the
	// peer has sent its last message and the stream ended without an error,
	// else an [*Error].
	RecvMsg(v any) error
	// CloseSend tells the peer that no more messages come from this side.
	CloseSend() error
	// Close ends the stream: a client cancels it unless it is over, a server
	// refuses further messages. It releases what the stream holds.
	Close() error
}

// Stream is a [MessageStream] with types: In is received, Out is sent.
// The three streaming shapes differ only in how many messages each side sends:
//
//   - server streaming: the client sends one and ranges over All;
//   - client streaming: the client sends many, calls CloseSend, receives one;
//   - both: either side sends and receives as it likes.
//
// One goroutine may send while another receives.
type Stream[In, Out any] struct{ MessageStream }

// Send sends one message.
func (s *Stream[In, Out]) Send(m *Out) error { return s.SendMsg(m) }

// Recv receives one message. It returns io.EOF after the peer's last message.
func (s *Stream[In, Out]) Recv() (*In, error) {
	m := new(In)
	if err := s.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

// All ranges over the messages that are still to come. An error other than
// io.EOF is yielded once, with a nil message, and ends the range.
func (s *Stream[In, Out]) All() iter.Seq2[*In, error] {
	return func(yield func(*In, error) bool) {
		for {
			m, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}
