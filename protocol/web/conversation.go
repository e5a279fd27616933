package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

// clientStream is a client's stream over Connect and HTTP/1.1. It is also the HTTP client that connect uses for it, so
// that it knows when the request is sent and when the response arrives.
type clientStream struct {
	http    *http.Client
	most    int // bytes; limit of a message
	attempt *httpcalls.Attempt
	ctx     context.Context //nolint:containedctx // the stream's context
	end     func()
	conn    connect.StreamingClientConn
	refused chan error  // receives the error of a request that got no response
	whole   atomic.Bool // all messages are sent

	// Used by the receiver only.
	begun   bool // Receive was called, and has read nothing yet
	trailer tandem.Metadata

	mu     sync.Mutex
	answer io.Closer // the body of the response
	over   bool
	lost   error // why the response could not be read to its end
}

// CarryStream opens a stream.
func (c *caller) CarryStream(ctx context.Context, r *client.Request) (client.Messages, error) {
	over, err := c.streams.httpClient(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case over == nil:
		return c.http2.CarryStream(ctx, r)
	}
	for tries := 1; ; tries++ {
		s, err := c.begin(ctx, over)
		if err != nil {
			return nil, err
		}
		if err = s.open(c, r.Call); err == nil {
			return s, nil
		}
		_ = s.Close()
		if tries == 3 || ctx.Err() != nil || tandem.MayHaveExecuted(err) {
			return nil, err
		}
	} // the server was closing the connection that was used: try again
}

func (c *caller) begin(ctx context.Context, over *http.Client) (*clientStream, error) {
	ctx, attempt, end, err := c.Begin(ctx)
	if err != nil {
		return nil, err
	}
	s := &clientStream{http: over, most: c.remote.MaxMessage, attempt: attempt, ctx: ctx, end: end, refused: make(chan error, 1)}
	context.AfterFunc(ctx, s.hangUp)
	return s, nil
}

// open sends the request's header.
func (s *clientStream) open(c *caller, call *tandem.Call) error {
	err := httpcalls.Check(call.Metadata, true)
	if err != nil {
		return err
	}
	if s.conn, err = c.client(s, call).CallClientStream(s.ctx).Conn(); err != nil {
		return notSent(err)
	}
	addMetadata(s.conn.RequestHeader(), call.Metadata)
	httpcalls.Strip(s.conn.RequestHeader())
	if err := s.conn.Send(nil); err != nil && !errors.Is(err, io.EOF) {
		return notSent(err)
	}
	select {
	case <-s.attempt.Sent():
		return nil
	case err = <-s.refused:
	case <-s.ctx.Done():
		err = context.Cause(s.ctx)
	}
	select {
	case <-s.attempt.Sent():
		return nil // Receive returns the request's error
	default:
		return notSent(err)
	}
}

// notSent converts the error of a stream that has not begun.
func notSent(err error) error {
	e := *tandem.AsError(err)
	if e.Code == tandem.Unknown {
		e = *tandem.Errorf(tandem.Unavailable, "%w", err)
	}
	e.NotExecuted = true
	return &e
}

// Do makes the request for connect.
func (s *clientStream) Do(req *http.Request) (*http.Response, error) {
	req.Body = &upload{req.Body, s}
	res, err := s.http.Do(req) //nolint:gosec // all requests go to the same server
	if err != nil {
		s.refused <- err
		return nil, err
	}
	reportResponse(res)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = res.Body
	if s.over {
		_ = res.Body.Close()
	}
	res.Body = &envelopes{ReadCloser: res.Body, stream: s}
	return res, nil
}

// upload is the body of the request. connect also ends it when the response fails; the
// server must not take that for a complete request.
type upload struct {
	io.ReadCloser

	stream *clientStream
}

var errGivenUp = errors.New("the stream is given up")

func (u *upload) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) && !u.stream.whole.Load() {
		err = errGivenUp
	}
	return n, err
}

// lose notes why the response can't be read. The first reason counts: connect closes the body then, and
// reads it again.
func (s *clientStream) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = err
	}
}

// Send sends a message.
func (s *clientStream) Send(b []byte) error {
	err := s.conn.Send(&message{b: b})
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return s.failed(err)
}

// CloseSend ends the request.
func (s *clientStream) CloseSend() error {
	s.whole.Store(true)
	return s.conn.CloseRequest()
}

// Receive returns the next message.
func (s *clientStream) Receive() ([]byte, error) {
	var m message
	s.begun = true
	err := s.conn.Receive(&m)
	if err == nil {
		return m.b, nil
	}
	if errors.Is(err, io.EOF) {
		s.trailer = metadataOf(s.conn.ResponseHeader(), s.conn.ResponseTrailer())
		return nil, io.EOF
	}
	if connErr, ok := errors.AsType[*connect.Error](err); ok && connect.IsWireError(err) {
		s.trailer = Metadata(connErr.Meta())
		return nil, serverError(connErr)
	}
	return nil, s.failed(err)
}

// Trailer returns the response's header and trailer.
func (s *clientStream) Trailer() tandem.Metadata { return s.trailer }

// failed converts the error of a stream that failed on this side.
func (s *clientStream) failed(err error) error {
	if errors.Is(context.Cause(s.ctx), httpcalls.ErrClosed) {
		return tandem.Errorf(tandem.Unavailable, "%w", httpcalls.ErrClosed)
	}
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	connErr, ok := errors.AsType[*connect.Error](err)
	switch {
	case s.ctx.Err() == nil && lost != nil:
		return tandem.Errorf(tandem.Unavailable, "the connection was lost: %w", lost)
	case ok && connErr.Code() != connect.CodeUnknown && !wasReset(connErr):
		return tandem.Errorf(ourCode(connErr), "%s", connErr.Message())
	}
	return tandem.Errorf(tandem.Unavailable, "%w", err)
}

// Close ends the stream.
func (s *clientStream) Close() error {
	s.hangUp()
	s.end()
	return nil
}

// hangUp closes the body of the response. That resets the stream unless it has ended
// (canceling its context does not while the transport waits for a message of the request),
// and returns the flow-control window of unread data. The request is not closed: the server
// would take it for complete.
func (s *clientStream) hangUp() {
	s.mu.Lock()
	s.over = true
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		_ = answer.Close()
	}
}
