package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// conversation is a stream that is opened by tandem call.
type conversation struct {
	client   *client.Client
	method   string
	input    io.Reader // JSON values, each a message
	messages messages
	options  []tandem.CallOption
}

// converse sends the messages of the input, and prints a line for each that arrives, until the
// stream has ended.
func (f *callFlags) converse(ctx context.Context, sh *shell, c *conversation) error {
	if f.several {
		return usagef("--several is for unary calls; the messages of a stream are JSON values one after the other")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := c.client.OpenStream(ctx, c.method, c.options...)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // how it ended has been received
	go func() {
		if err := c.send(s); errors.As(err, new(inputError)) {
			cancel(err) // a message that can't be read; if one can't be sent, RecvMsg says why
		}
	}()
	err = f.receive(sh, s, c.messages)
	if cause := context.Cause(ctx); err != nil && errors.As(cause, new(inputError)) {
		return cause
	}
	return err
}

// inputError is an error of the messages that are to be sent.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// send sends the messages of the input. It may wait for more input when the stream has ended; then
// the process ends.
func (c *conversation) send(s tandem.MessageStream) error {
	in := json.NewDecoder(c.input)
	for {
		var text json.RawMessage
		err := in.Decode(&text)
		if errors.Is(err, io.EOF) {
			return s.CloseSend()
		}
		if err != nil {
			return inputError{usagef("the messages to send: %v", err)}
		}
		message, err := c.messages.message(text)
		if err != nil {
			return inputError{err}
		}
		if err := s.SendMsg(message); err != nil {
			return err //nolint:wrapcheck // how the stream ended is what RecvMsg returns
		}
	}
}

func (f *callFlags) receive(sh *shell, s tandem.MessageStream, m messages) error {
	for n := 0; f.most <= 0 || n < f.most; n++ {
		reply := m.reply()
		if err := s.RecvMsg(reply); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		text, err := m.text(reply)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(sh.out, text); err != nil {
			return err
		}
	}
	return nil
}
