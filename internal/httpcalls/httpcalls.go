// Package httpcalls makes calls at one server over HTTP/1.1, over as many connections as they need,
// which it presents as one; package http2calls does so over HTTP/2.
package httpcalls

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// maxIdle is how many idle connections to a server are kept.
const maxIdle = 16

// maxUnused is how old the first connection may be when a call gets it. Servers close a
// connection that has sent no header for some seconds, and net/http does not send a request
// again whose connection was new.
const maxUnused = time.Second

// ErrClosed is the error of a Server that was closed on this side.
var ErrClosed = errors.New("closed")

// Server is a server to make calls at. It ends when it can't be connected to, or is closed. It
// is safe for concurrent use.
type Server struct {
	// HTTP makes requests: all go to this server, whatever their host. It follows no redirects.
	HTTP *http.Client

	connect func(context.Context) (net.Conn, error)
	base    context.Context //nolint:containedctx // of the connections: it ends with Close
	cancel  context.CancelFunc
	calls   sync.WaitGroup

	mu     sync.Mutex
	first  net.Conn  // the connection that was made first, until a call gets it
	made   time.Time // when first was made
	open   map[*tracked]struct{}
	err    error
	closed bool
	done   chan struct{}
}

// tracked is a connection that is closed with its Server, even if it is in use.
type tracked struct {
	net.Conn

	server *Server
}

func (t *tracked) Close() error {
	t.server.mu.Lock()
	delete(t.server.open, t)
	t.server.mu.Unlock()
	return t.Conn.Close()
}

// Connect connects once, to find out whether the server can be reached; the first call gets
// that connection if it comes soon.
func Connect(ctx context.Context, connect func(context.Context) (net.Conn, error)) (*Server, error) {
	first, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	return New(first, connect), nil
}

// New is [Connect] with a connection that exists.
func New(first net.Conn, connect func(context.Context) (net.Conn, error)) *Server {
	s := &Server{connect: connect, first: first, made: time.Now(), open: map[*tracked]struct{}{}, done: make(chan struct{})}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.HTTP = s.Client()
	return s
}

// Client returns another client like HTTP, with connections of its own.
func (s *Server) Client() *http.Client {
	return &http.Client{
		Transport:     s.transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *Server) transport() *http.Transport {
	t := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		DisableCompression: true, MaxIdleConnsPerHost: maxIdle, Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true) // TLS, if there is any, is in the connection
	return t
}

// dial returns a connection for a call: the first one, or a new one.
func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	c := s.first
	s.first = nil
	old := time.Since(s.made) > maxUnused
	s.mu.Unlock()
	if c != nil && old {
		_ = c.Close() // it may be closed by the server already
		c = nil
	}
	if c == nil {
		var err error
		if c, err = s.connect(ctx); err != nil {
			if ctx.Err() == nil {
				s.end(err)
			}
			return nil, err
		}
	}
	return s.track(c)
}

func (s *Server) track(c net.Conn) (net.Conn, error) {
	t := &tracked{c, s}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.open[t] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, c.Close())
	}
	return t, nil
}

// Attempt records what happens to one call's request.
type Attempt struct {
	connected, answered atomic.Bool
	wrote, unwritten    atomic.Bool // the whole request was written; writing it failed

	sending sync.Once
	sent    chan struct{}
}

// Sent is closed when the header of the request has been written.
func (a *Attempt) Sent() <-chan struct{} { return a.sent }

// Answered reports whether the first byte of the response has arrived.
func (a *Attempt) Answered() bool { return a.answered.Load() }

// Failed returns the error of a call that has failed on this side, with the code of a context's
// error or Unavailable. It has NotExecuted set if there was no connection for the request, or
// not all of the request was written.
func (a *Attempt) Failed(err error) error {
	failed := *tandem.AsError(err)
	switch {
	case failed.Code == tandem.Unknown:
		failed.Code = tandem.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		failed.Message = "no answer within the deadline"
	case errors.Is(err, context.Canceled):
		failed.Message = "call canceled by the caller"
	}
	failed.NotExecuted = !a.connected.Load() || a.unwritten.Load() && !a.wrote.Load() && !a.answered.Load()
	return &failed
}

// resetWrites notes that net/http needs a connection, for the first time or again. It sends a POST
// again only if no server has accepted it (see [Strip]), so the result on an earlier connection
// does not count.
func (a *Attempt) resetWrites() {
	a.connected.Store(false)
	a.wrote.Store(false)
	a.unwritten.Store(false)
}

// noteWritten records whether the request was written.
func (a *Attempt) noteWritten(i httptrace.WroteRequestInfo) {
	op, ok := errors.AsType[*net.OpError](i.Err)
	switch {
	case i.Err == nil:
		a.wrote.Store(true)
	case ok && op.Op == "write":
		a.unwritten.Store(true)
	}
}

// Do calls f, which makes a request with the context that it is given; that context ends with
// the Server, too. If the Server has ended, f is not called and Do returns an error.
func (s *Server) Do(ctx context.Context, f func(ctx context.Context, a *Attempt) error) error {
	ctx, a, end, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return f(ctx, a)
}

// Begin begins a call that outlives the function that makes it, by one POST. It returns the
// context of the request, which ends with the Server, too, and then has the cause [ErrClosed].
// end, which must be called once, cancels the context; Close waits for it.
func (s *Server) Begin(ctx context.Context) (_ context.Context, _ *Attempt, end func(), _ error) {
	s.mu.Lock()
	why := s.err
	if why == nil {
		s.calls.Add(1)
	}
	s.mu.Unlock()
	if why != nil {
		return nil, nil, nil, &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: why.Error()}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	leave := context.AfterFunc(s.base, func() { cancel(ErrClosed) })
	a := &Attempt{sent: make(chan struct{})}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { a.resetWrites() },
		GotConn:              func(httptrace.GotConnInfo) { a.connected.Store(true) },
		WroteHeaders:         func() { a.sending.Do(func() { close(a.sent) }) },
		WroteRequest:         a.noteWritten,
		GotFirstResponseByte: func() { a.answered.Store(true) },
	})
	return ctx, a, func() {
		leave()
		cancel(nil)
		s.calls.Done()
	}, nil
}

// Host returns the host of URLs for a server at an address: the address itself, or "localhost"
// if it is no host, such as the path of a unix socket.
func Host(address string) string {
	if u, err := url.Parse("http://" + address); err != nil || u.Host == "" || u.Host != address {
		return "localhost"
	}
	return address
}

// Strip removes the header fields that would make net/http send a request again that may have
// been executed.
func Strip(h http.Header) {
	h.Del("Idempotency-Key")
	h.Del("X-Idempotency-Key")
}

// end records that no more calls are made, and why.
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

// Err returns why the Server has ended; nil if it has not.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the calls in flight, waits for them, and closes all connections.
func (s *Server) Close() error {
	s.end(ErrClosed)
	s.cancel()
	s.calls.Wait()
	s.mu.Lock()
	s.closed = true
	var conns []net.Conn
	if s.first != nil {
		conns = append(conns, s.first)
		s.first = nil
	}
	for c := range s.open {
		conns = append(conns, c.Conn)
	}
	s.mu.Unlock()
	var failed error
	for _, c := range conns {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
