package websocket

import (
	"bufio"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	ws "github.com/coder/websocket"

	"github.com/tandem-rpc/tandem/transport"
)

// Handler serves the WebSockets of one path of an HTTP server to a tandem server: it is both an
// [http.Handler] and a [net.Listener].
//
//	h := websocket.NewHandler()
//	http.Handle("/rpc", h)
//	go srv.ServeListener(h)
type Handler struct {
	opts   options
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// NewHandler returns a handler. [WithPath] and [WithPending] have no effect on it: the HTTP
// server decides both.
func NewHandler(opts ...Option) *Handler { return newHandler(mounted{}, newOptions(opts)) }

func newHandler(addr net.Addr, o options) *Handler {
	return &Handler{opts: o, addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// mounted is the address of a handler that does not know its own.
type mounted struct{}

func (mounted) Network() string { return "websocket" }
func (mounted) String() string  { return "mounted" }

// ServeHTTP makes the request's connection a WebSocket and passes it to Accept. It returns when
// Accept has taken it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-h.closed:
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return
	default:
	}
	taker := &hijack{ResponseWriter: w}
	conn, err := ws.Accept(taker, r, &ws.AcceptOptions{Subprotocols: []string{Subprotocol}, OriginPatterns: h.opts.origins})
	if err != nil {
		return // the HTTP response has the reason
	}
	c := newConn(conn, taker.conn)
	if conn.Subprotocol() != Subprotocol {
		_ = conn.Close(ws.StatusPolicyViolation, "ask for the subprotocol "+Subprotocol)
		_ = c.Close()
		return
	}
	select {
	case h.conns <- c:
	case <-h.closed:
		_ = c.Close()
	}
}

// hijack stores the connection that is taken over.
type hijack struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack takes the connection over from the HTTP server.
func (w *hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.conn = c
	return c, rw, err
}

// Accept returns the next WebSocket.
func (h *Handler) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, &net.OpError{Op: "accept", Net: "websocket", Addr: h.addr, Err: net.ErrClosed}
	}
}

// Close ends Accept. Connections that were accepted stay open.
func (h *Handler) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Secure returns an error: TLS belongs to the HTTP server.
func (h *Handler) Secure(*tls.Config) (net.Listener, error) {
	return nil, errors.New("TLS is beneath WebSockets: leave out WithTLS, and give TLS to the HTTP server, or serve a transport of websocket.New by its name")
}

// Addr returns an address that stands for an unknown one.
func (h *Handler) Addr() net.Addr { return h.addr }

// listener is a handler with an HTTP server of its own.
type listener struct {
	*Handler
	http http.Server
	done chan struct{} // closed when the HTTP server has ended
}

func newListener(inner net.Listener, o options) *listener {
	l := &listener{Handler: newHandler(address{inner.Addr(), o.path}, o), done: make(chan struct{})}
	pending := pending{most: o.pending}
	l.http = http.Server{
		Handler:           l.only(o.path),
		ReadHeaderTimeout: o.hello,
		WriteTimeout:      o.hello,
		IdleTimeout:       o.hello,
		MaxHeaderBytes:    16 << 10,
		ConnState:         pending.follow,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go func() {
		defer close(l.done)
		_ = l.http.Serve(inner) // ends with Close, or with the listener below
		_ = l.Handler.Close()
	}()
	return l
}

// only answers requests for other paths with 404.
func (l *listener) only(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		l.ServeHTTP(w, r)
	}
}

// pending holds the connections that have not become WebSockets, most at most.
type pending struct {
	most int

	mu    sync.Mutex
	conns transport.Handshakes[net.Conn]
}

// minHandshake is how long a connection may always take. Clients that all connect at once are
// quicker.
const minHandshake = 100 * time.Millisecond

// follow counts connections. A new connection replaces the one that [transport.Handshakes]
// selects, unless that is new, too: then the new connection is closed.
func (p *pending) follow(c net.Conn, s http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case http.StateNew:
		now := time.Now()
		if p.conns.Len() >= p.most {
			old, since, _ := p.conns.Next()
			if now.Sub(since) < minHandshake {
				cut(c)
				return
			}
			p.conns.Remove(old)
			cut(old)
		}
		p.conns.Add(c, transport.NetworkOf(transport.IP(c.RemoteAddr())), now)
	case http.StateHijacked, http.StateClosed:
		p.conns.Remove(c)
	default:
	}
}

// cut closes a connection without TLS's closing alert, which a peer that does not read would
// delay. The HTTP server notices.
func cut(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close()
}

// Close stops listening. Connections that were accepted stay open.
func (l *listener) Close() error {
	err := errors.Join(l.Handler.Close(), l.http.Close())
	<-l.done
	return err
}

// address is the inner listener's address, with the path.
type address struct {
	net.Addr
	path string
}

func (a address) String() string { return a.Addr.String() + strings.TrimSuffix(a.path, "/") }
