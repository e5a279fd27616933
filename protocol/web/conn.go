package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem/server"
)

// newServer returns what serves one connection. A server for each costs little,
// and makes its end that connection's alone.
func (p *protocol) newServer(ctx context.Context, c *conn) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // TLS, if there is any, is beneath us
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(p.handler, w, r) }),
		ReadHeaderTimeout: c.StallTimeout(),
		IdleTimeout:       p.opts.idle,
		MaxHeaderBytes:    p.opts.maxHeader,
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: min(p.opts.maxStreams, c.MaxOpenCalls()),
			SendPingTimeout:      pingAfter,
			PingTimeout:          c.StallTimeout(),
		},
		BaseContext: func(net.Listener) context.Context { return context.WithValue(ctx, connKey{}, c.Conn) },
		ConnState:   c.changed,
		ErrorLog:    slog.NewLogLogger(c.Logger().Handler(), slog.LevelWarn),
		// net/http's own answer to OPTIONS * would wait for a body, and pass the check of hosts.
		DisableGeneralOptionsHandler: true,
	}
}

// pingAfter is how long a client of HTTP/2 may be silent before it is pinged.
const pingAfter = 30 * time.Second

// conn is a connection that an [http.Server] serves. Closing it ends reading and
// writing; what is beneath it is the tandem server's to close, when the last answer
// has been sent.
type conn struct {
	*server.Conn

	hosts        []string // that requests may name, nil for all
	defaultHosts bool     // WithHosts is not used
	all          ticket   // of the protocol's calls that are entering
	entering     ticket   // of the connection's

	over  chan struct{} // closed when net/http, or who has taken the connection over, is done with it
	begun chan struct{} // closed when http2 is known
	asked chan struct{} // closed when the first request has come

	leaving atomic.Bool // the server drains

	mu        sync.Mutex
	framing   framing
	frames    frames
	arrivals  arrivals
	paced     bool      // a deadline for a frame is set
	unpaced   int       // bytes until it is set again
	held      []byte    // read, and of a later part than what was returned
	headerBy  time.Time // when a header that has begun must have ended
	failed    bool      // the last Read has
	hurried   bool      // the server drains, and requests must keep coming
	responses map[*response]struct{}
	hasAsked  bool
	hijacked  bool
	reading   bool // in a Read
	closed    bool
	isOver    bool
}

// complete returns the request with what net/http does not see, since TLS is beneath it.
func (c *conn) complete(r *http.Request) *http.Request {
	if r.TLS == nil && c.Peer().TLS != nil {
		r.TLS = c.Peer().TLS
	}
	return r
}

// changed is told what becomes of the connection.
func (c *conn) changed(_ net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateHijacked:
		c.hijacked = true
		c.framing.part = unframed
		c.endLocked(c.closed)
	case http.StateClosed:
		c.endLocked(true)
	case http.StateNew, http.StateActive, http.StateIdle:
	}
}

func (c *conn) endLocked(over bool) {
	if over && !c.isOver {
		c.isOver = true
		close(c.over)
	}
}

// Write writes an answer.
func (c *conn) Write(p []byte) (int, error) {
	if c.isClosed() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close ends reading and writing.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.endLocked(c.hijacked && !c.reading) // a Read that is not over would go on with the deadline of what follows
	return c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// SetDeadline sets the deadlines of reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// drain tells the client to go elsewhere, and returns when its requests are answered.
// HTTP/2 must have begun, or it would not hear of it; and net/http's client does not make
// the first request of a connection elsewhere.
func (c *conn) drain(ctx context.Context, s *http.Server) {
	wait, cancel := context.WithTimeout(ctx, lastRequest)
	defer cancel()
	c.leaving.Store(true)
	c.await(wait, c.begun)
	if c.speaksHTTP2() {
		c.await(wait, c.asked)
		defer time.AfterFunc(lastRequest, c.hurry).Stop()
	} else {
		c.await(wait, nil)
		if ctx.Err() == nil {
			c.hurry()
		}
	}
	_ = s.Shutdown(ctx) // if ctx has ended, so has the connection
}

// lastRequest is how long a connection of HTTP/1.1 stays open for one more request when
// the server drains: only an answer can say that it ends, and a request that is under
// way when it does is lost.
const lastRequest = 500 * time.Millisecond

// await waits for a channel, or the end of the connection.
func (c *conn) await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-c.over:
	case <-ctx.Done():
	}
}

// errNoMore ends Serve when the only connection has ended.
var errNoMore = errors.New("there is one connection only")

// oneListener listens for one connection, and then waits for its end.
type oneListener struct {
	conn     *conn
	accepted bool // used by the goroutine that serves
	once     sync.Once
	done     chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l.conn, nil
	}
	select {
	case <-l.conn.over:
		return nil, errNoMore
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *oneListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }
