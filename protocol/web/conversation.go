package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

// conversation is a stream of a client's. As connect's HTTP client it sees the request
// go and the answer come.
type conversation struct {
	http    *http.Client
	most    int // bytes of a message
	attempt *httpcalls.Attempt
	ctx     context.Context //nolint:containedctx // the stream's
	end     func()
	conn    connect.StreamingClientConn
	refused chan error  // has what became of a request that has no answer
	whole   atomic.Bool // all messages are sent

	// The receiver's.
	begun   bool // Receive was called, and nothing was read since
	trailer tandem.Metadata

	mu     sync.Mutex
	answer io.Closer // the body of the answer
	over   bool
	lost   error // why it could not be read to its end
}

// CarryStream opens a stream.
func (c *caller) CarryStream(ctx context.Context, r *client.Request) (client.Messages, error) {
	over, err := c.streams.over(ctx, c)
	if err != nil {
		return nil, err
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
	} // it was given a connection that the server has just wound up
}

func (c *caller) begin(ctx context.Context, over *http.Client) (*conversation, error) {
	ctx, attempt, end, err := c.Begin(ctx)
	if err != nil {
		return nil, err
	}
	s := &conversation{http: over, most: c.remote.MaxMessage, attempt: attempt, ctx: ctx, end: end, refused: make(chan error, 1)}
	context.AfterFunc(ctx, s.hangUp)
	return s, nil
}

// open sends the request's header.
func (s *conversation) open(c *caller, call *tandem.Call) error {
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
		return nil // Receive says what has become of it
	default:
		return notSent(err)
	}
}

// notSent is the error of a stream that has not begun.
func notSent(err error) error {
	e := *tandem.AsError(err)
	if e.Code == tandem.Unknown {
		e = *tandem.Errorf(tandem.Unavailable, "%w", err)
	}
	e.NotExecuted = true
	return &e
}

// Do makes the request for connect.
func (s *conversation) Do(req *http.Request) (*http.Response, error) {
	req.Body = &upload{req.Body, s}
	res, err := s.http.Do(req) //nolint:gosec // all requests go to the one server
	if err != nil {
		s.refused <- err
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = res.Body
	if s.over {
		_ = res.Body.Close()
	}
	res.Body = &envelopes{ReadCloser: res.Body, stream: s}
	return res, nil
}

// upload is the body of the request. connect ends it when the answer fails, too: to the
// server that must not look as if all was sent.
type upload struct {
	io.ReadCloser

	stream *conversation
}

var errGivenUp = errors.New("the stream is given up")

func (u *upload) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) && !u.stream.whole.Load() {
		err = errGivenUp
	}
	return n, err
}

func (s *conversation) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = err
}

// Send sends a message.
func (s *conversation) Send(b []byte) error {
	err := s.conn.Send(&message{b})
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return s.failed(err)
}

// CloseSend ends what is sent.
func (s *conversation) CloseSend() error {
	s.whole.Store(true)
	return s.conn.CloseRequest()
}

// Receive returns the next message.
func (s *conversation) Receive() ([]byte, error) {
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
	if said, ok := errors.AsType[*connect.Error](err); ok && connect.IsWireError(err) {
		s.trailer = Metadata(said.Meta())
		return nil, theirs(said)
	}
	return nil, s.failed(err)
}

// Trailer is the answer's header and trailer.
func (s *conversation) Trailer() tandem.Metadata { return s.trailer }

// failed is the error of a stream that has failed on this side.
func (s *conversation) failed(err error) error {
	if errors.Is(context.Cause(s.ctx), httpcalls.ErrClosed) {
		return tandem.Errorf(tandem.Unavailable, "%w", httpcalls.ErrClosed)
	}
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	said, ok := errors.AsType[*connect.Error](err)
	switch {
	case unprocessed(err) && !s.attempt.Answered():
		e := tandem.Errorf(tandem.Unavailable, "%w", err)
		e.NotExecuted = true
		return e
	case s.ctx.Err() == nil && lost != nil && !errors.As(lost, new(resetError)):
		return tandem.Errorf(tandem.Unavailable, "the connection was lost: %w", lost)
	case ok && said.Code() != connect.CodeUnknown:
		return tandem.Errorf(ourCode(said), "%s", said.Message())
	}
	return tandem.Errorf(tandem.Unavailable, "%w", err)
}

// Close ends the stream.
func (s *conversation) Close() error {
	s.hangUp()
	s.end()
	return nil
}

// hangUp closes the body of the answer: that resets the stream unless it has ended, which
// its context does not while a message of the request is waited for, and gives back
// the window that nobody has read. The request is not closed: that would tell the
// server that it was whole.
func (s *conversation) hangUp() {
	s.mu.Lock()
	s.over = true
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		_ = answer.Close()
	}
}

// resetError is what net/http has for an HTTP/2 stream that was reset, whose type is its
// own: a struct with these fields is one for [errors.As].
type resetError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e resetError) Error() string { return "reset" }

// unprocessed reports whether the server has said that it has not looked at a request:
// RFC 9113, section 8.7. Of requests with messages net/http says so in words alone.
func unprocessed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "REFUSED_STREAM; received from peer") || strings.Contains(text, "graceful shutdown GOAWAY")
}
