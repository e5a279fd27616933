// Package httpcalls makes calls at one server over HTTP: as many connections as that
// takes, and what a client wants to know of them as if they were one.
package httpcalls

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// maxIdle is how many connections to a server are kept though no call needs them.
const maxIdle = 16

// ErrClosed is why a Server has ended that was closed on this side.
var ErrClosed = errors.New("closed")

// Server is one that calls are made at. It has ended when it can't be connected to, or
// was closed. It is safe for concurrent use.
type Server struct {
	// HTTP makes requests, at any host: all go to this server. It follows no
	// redirects.
	HTTP *http.Client

	connect func(context.Context) (net.Conn, error)
	base    context.Context //nolint:containedctx // the connections' own: it ends with Close
	cancel  context.CancelFunc
	calls   sync.WaitGroup

	mu    sync.Mutex
	first net.Conn // that nobody has used yet
	err   error
	done  chan struct{}
}

// Connect connects once, so that it is known that the server is there; the first call
// gets that connection. http2 has all connections speak HTTP/2 without being asked,
// and so one is enough.
func Connect(ctx context.Context, connect func(context.Context) (net.Conn, error), http2 bool) (*Server, error) {
	first, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{connect: connect, first: first, done: make(chan struct{})}
	s.base, s.cancel = context.WithCancel(context.Background())
	t := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		DisableCompression: true, MaxIdleConnsPerHost: maxIdle, Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP1(!http2)
	t.Protocols.SetUnencryptedHTTP2(http2) // TLS, if there is any, is beneath
	s.HTTP = &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// dial makes a connection for a call.
func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	first := s.first
	s.first = nil
	s.mu.Unlock()
	if first != nil {
		return first, nil
	}
	c, err := s.connect(ctx)
	if err != nil && ctx.Err() == nil {
		s.end(err)
	}
	return c, err
}

// Attempt is what happens to one call's request.
type Attempt struct {
	connected, answered atomic.Bool
}

// Answered reports whether the server has answered anything.
func (a *Attempt) Answered() bool { return a.answered.Load() }

// Failed is the error of a call that has failed on this side: a context's, or
// Unavailable. It is NotExecuted if there was no connection to send the request on.
func (a *Attempt) Failed(err error) error {
	e := tandem.AsError(err)
	if e.Code == tandem.Unknown {
		e = tandem.Errorf(tandem.Unavailable, "%w", err)
	}
	failed := *e
	failed.NotExecuted = !a.connected.Load()
	return &failed
}

// Do runs f, which makes a request with the context that it is given: that one ends with
// the Server, too. When the Server has ended f is not run.
func (s *Server) Do(ctx context.Context, f func(ctx context.Context, a *Attempt) error) error {
	s.mu.Lock()
	why := s.err
	if why == nil {
		s.calls.Add(1)
	}
	s.mu.Unlock()
	if why != nil {
		return &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: why.Error()}
	}
	defer s.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()
	a := new(Attempt)
	return f(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { a.connected.Store(true) },
		GotFirstResponseByte: func() { a.answered.Store(true) },
	}), a)
}

// Strip takes fields out of a header by which net/http would send a request again that
// may have run.
func Strip(h http.Header) {
	h.Del("Idempotency-Key")
	h.Del("X-Idempotency-Key")
}

// end notes that no more calls are made, and why.
func (s *Server) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
	}
}

// Done is closed when the Server has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why it has; nil while it has not.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the calls in flight, waits for them, and closes all connections.
func (s *Server) Close() error {
	s.end(ErrClosed)
	s.cancel()
	s.mu.Lock()
	first := s.first
	s.first = nil
	s.mu.Unlock()
	s.calls.Wait()
	s.HTTP.CloseIdleConnections()
	if first != nil {
		return first.Close()
	}
	return nil
}
