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

// newServer returns the http.Server of one connection. A server for each connection costs
// little, and shutting it down affects that connection only.
func (p *protocol) newServer(ctx context.Context, c *conn) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // the connection below does TLS, if any
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
		// net/http's own response to OPTIONS * would wait for a body, and skip the check of
		// hosts.
		DisableGeneralOptionsHandler: true,
	}
}

// pingAfter is how long an HTTP/2 client may be silent before it is pinged.
const pingAfter = 30 * time.Second

// conn is a connection that an [http.Server] serves. Closing it ends reading and writing;
// the tandem server closes the connection below when the last response has been sent.
type conn struct {
	*server.Conn

	hosts        []string // hosts that requests may name; nil for any
	defaultHosts bool     // WithHosts is not used
	all          ticket   // calls that are entering, on all connections of the protocol
	entering     ticket   // calls that are entering, on this connection

	connEnded    chan struct{} // closed when net/http, or a handler that hijacked the connection, is done with it
	versionKnown chan struct{} // closed when http2 is known
	firstRequest chan struct{} // closed when the first request has arrived

	draining atomic.Bool // the server drains

	mu              sync.Mutex
	framing         framing
	frames          frames
	arrivals        arrivals
	paced           bool      // a deadline for a frame is set
	unpaced         int       // bytes to read until the frame's deadline is set again
	held            []byte    // bytes that were read, but belong to a part after the one that Read returned
	headerBy        time.Time // deadline of the header that is being read
	failed          bool      // the last Read failed
	readsLimited    bool      // the server drains, and requests must keep arriving
	responses       map[*response]struct{}
	hasFirstRequest bool
	hijacked        bool
	reading         bool // a Read is running
	closed          bool
	hasEnded        bool
}

// complete sets r.TLS, which net/http does not set because TLS is below it.
func (c *conn) complete(r *http.Request) *http.Request {
	if r.TLS == nil && c.Peer().TLS != nil {
		r.TLS = c.Peer().TLS
	}
	return r
}

// changed is net/http's ConnState hook.
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
	if over && !c.hasEnded {
		c.hasEnded = true
		close(c.connEnded)
	}
}

// Write writes to the client.
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
	c.endLocked(c.hijacked && !c.reading) // else a Read that is running would take the deadlines of the connection's next user
	return c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// SetDeadline sets the deadlines of reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// drain tells the client to use another connection, and returns when its requests are
// answered. A client that has not begun HTTP/2 would not get its GOAWAY, and net/http's
// client does not retry the first request of a connection: drain waits for both first.
func (c *conn) drain(ctx context.Context, s *http.Server) {
	wait, cancel := context.WithTimeout(ctx, lastRequest)
	defer cancel()
	c.draining.Store(true)
	c.await(wait, c.versionKnown)
	if c.speaksHTTP2() {
		c.await(wait, c.firstRequest)
		defer time.AfterFunc(lastRequest, c.limitReads).Stop()
	} else {
		c.await(wait, nil)
		if ctx.Err() == nil {
			c.limitReads()
		}
	}
	_ = s.Shutdown(ctx) // if ctx has ended, so has the connection
}

// lastRequest is how long an HTTP/1.1 connection stays open for one more request when the
// server drains: only a response can announce the end of the connection, and a request that
// is on its way when the connection is closed is lost.
const lastRequest = 500 * time.Millisecond

// await waits until done is closed, the connection has ended, or ctx is done.
func (c *conn) await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-c.connEnded:
	case <-ctx.Done():
	}
}

// errNoMore ends http.Server.Serve when the only connection has ended.
var errNoMore = errors.New("there is one connection only")

// oneListener accepts one connection, and then waits for its end.
type oneListener struct {
	conn     *conn
	accepted bool // used only by the goroutine that calls Accept
	once     sync.Once
	done     chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l.conn, nil
	}
	select {
	case <-l.conn.connEnded:
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
