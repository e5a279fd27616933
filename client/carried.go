package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/session"
)

// carried is a stream over a connection of another protocol. A goroutine receives one message
// ahead of RecvMsg, so that the end of the stream is known when it happens, also to a caller
// that only sends.
type carried struct {
	env      *session.Env
	codec    tandem.Codec
	messages Messages
	gone     <-chan struct{}
	ctx      context.Context
	cancel   context.CancelCauseFunc

	arrived chan []byte
	unread  chan struct{} // takes a token while a message waits for its receiver
	ended   chan struct{}

	mu      sync.Mutex
	over    bool
	err     error // valid when ended is closed, as is trailer; io.EOF if the stream ended without an error
	trailer tandem.Metadata
	closed  bool // CloseSend was called
}

// openCarried opens a stream by open, which returns when the request is on its way. The stream
// ends with ctx, and when gone, the end of its connection on this side, is closed.
func openCarried(ctx context.Context, e *session.Env, attempt *tandem.Call, gone <-chan struct{}, open func(context.Context) (Messages, error)) (*carried, error) {
	st := &carried{
		env: e, codec: e.Codec(attempt.Codec), gone: gone,
		arrived: make(chan []byte), unread: make(chan struct{}), ended: make(chan struct{}),
	}
	st.ctx, st.cancel = session.StreamContext(ctx, attempt.Deadline)
	late := time.AfterFunc(call.StreamOpening, func() { st.cancel(context.DeadlineExceeded) })
	var err error
	st.messages, err = open(st.ctx)
	late.Stop()
	if cause := context.Cause(st.ctx); cause != nil {
		if err == nil {
			_ = st.messages.Close()
		}
		err = session.GivenUp(cause, err != nil && !tandem.MayHaveExecuted(err))
	}
	if err == nil && !e.Spawn(st.receive) {
		_ = st.messages.Close()
		err = notSent(tandem.Unavailable, "closed")
	}
	if err != nil {
		st.cancel(err)
		return nil, err
	}
	return st, nil
}

// receive passes messages to RecvMsg until the stream has ended.
func (st *carried) receive() {
	defer func() { _ = st.messages.Close() }()
	for {
		message, err := st.messages.Receive()
		if err != nil {
			st.finish(st.reason(err), st.messages.Trailer())
			return
		}
		if err := st.deliver(message); err != nil {
			st.finish(err, nil)
			return
		}
	}
}

// reason returns why the stream ended: if its context has ended, that is the reason, as err may
// be a consequence.
func (st *carried) reason(err error) error {
	if cause := context.Cause(st.ctx); cause != nil {
		return session.GivenUp(cause, false)
	}
	return err
}

func (st *carried) deliver(message []byte) error {
	for {
		select {
		case st.arrived <- message:
			return nil
		case st.unread <- struct{}{}:
		case <-st.ctx.Done():
			return session.GivenUp(context.Cause(st.ctx), false)
		case <-st.gone:
			return tandem.Errorf(tandem.Unavailable, "%w", session.ErrClosed)
		}
	}
}

// finish ends the stream, unless it is over.
func (st *carried) finish(err error, trailer tandem.Metadata) {
	st.mu.Lock()
	first := !st.over
	if first {
		st.over, st.err, st.trailer = true, err, trailer
		close(st.ended)
	}
	st.mu.Unlock()
	if first {
		st.cancel(err)
	}
}

// Context ends when the stream does.
func (st *carried) Context() context.Context { return st.ctx }

// Trailer returns the metadata of the final response; valid once the stream is over.
func (st *carried) Trailer() tandem.Metadata {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.trailer
}

// RecvMsg decodes the next message into v.
func (st *carried) RecvMsg(v any) error {
	select {
	case message := <-st.arrived:
		if err := codec.Decode(st.codec, message, v); err != nil {
			return &tandem.Error{Code: tandem.InvalidArgument, Message: "stream message: " + err.Error()}
		}
		return nil
	case <-st.ended:
	case <-st.ctx.Done():
		st.Abort(context.Cause(st.ctx))
	}
	return st.err
}

// SendMsg encodes v and returns when the connection has taken it.
func (st *carried) SendMsg(v any) error {
	if err := st.sendable(); err != nil {
		return err
	}
	buf := buffer.Get()
	defer buf.Put()
	b, err := codec.Append(st.codec, buf.B[:0], v)
	if err != nil {
		return &tandem.Error{Code: tandem.Internal, Message: "stream message: " + err.Error()}
	}
	buf.B = b
	switch err := st.messages.Send(b); {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return st.whyNot()
	default:
		return st.reason(err)
	}
}

func (st *carried) sendable() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.over:
		return session.SendError(st.err)
	case st.closed:
		return session.SendError(io.EOF)
	}
	return nil
}

// whyNot returns the error of a message that the server did not take because it has ended the
// stream. How the stream ended is known only after the messages that the server has sent.
func (st *carried) whyNot() error {
	select {
	case <-st.ended:
	case <-st.unread:
		return &tandem.Error{Code: tandem.FailedPrecondition, Message: "the stream is over: receive what is left to learn how it ended"}
	case <-st.ctx.Done():
		st.Abort(context.Cause(st.ctx))
	}
	return session.SendError(st.err)
}

// CloseSend tells the server that no more messages come.
func (st *carried) CloseSend() error {
	st.mu.Lock()
	done := st.over || st.closed
	st.closed = true
	st.mu.Unlock()
	if done {
		return nil
	}
	return st.messages.CloseSend()
}

// Close cancels the stream unless it is over.
func (st *carried) Close() error {
	st.Abort(context.Canceled)
	return nil
}

func (st *carried) Abort(cause error) { st.finish(session.GivenUp(cause, false), nil) }

func (st *carried) IsOver() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.over
}

// Outcome returns the error that the stream ended with, or nil.
func (st *carried) Outcome() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if errors.Is(st.err, io.EOF) {
		return nil
	}
	return st.err
}
