// Package websocket (experimental) makes connections over WebSockets (RFC 6455): through
// HTTP proxies and load balancers, on the port of a web server, and from
// browsers.
//
//	srv := server.New(server.WithTransport("ws", websocket.New(transport.TCP())))
//	err := srv.Serve("ws", ":8080")
//
//	c, err := client.Dial("ws://host:8080", client.WithTransport("ws", websocket.New(transport.TCP())))
//
// With WithTLS of client and server, or [transport.TLS] inside, it is encrypted, which
// programs in other languages know as wss://. [NewHandler] makes a path of an existing HTTP server
// a listener.
//
// # On the wire
//
// Both sides request the subprotocol [Subprotocol] and send binary messages.
// The connection is their bytes, one message after the other: where a message
// ends has no meaning. Text is refused. Nothing is compressed, since decompressing
// data of peers that are not authenticated yet takes memory. There is no half close: a
// close frame ends both directions.
package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	ws "github.com/coder/websocket"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
)

// Subprotocol is the name that both sides use in Sec-WebSocket-Protocol.
const Subprotocol = "tandem"

// Option changes a transport or a handler.
type Option func(*options)

type options struct {
	path    string
	origins []string
	header  http.Header
	pending int
	hello   time.Duration
}

const (
	defaultPending = 1024
	defaultHello   = 5 * time.Second
)

func newOptions(opts []Option) options {
	o := options{path: "/", header: http.Header{}, pending: defaultPending, hello: defaultHello}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithPath sets the path of the listener, which answers other paths with 404, and of addresses
// without a path. The default is "/".
func WithPath(path string) Option {
	return func(o *options) { o.path = "/" + strings.TrimPrefix(path, "/") }
}

// WithOrigins lets pages of other hosts connect. Patterns are hosts, such as "*.example.com",
// or schemes and hosts, such as "https://*.example.com". Without it a browser may connect only
// from a page of the same host; programs that are not browsers send no origin, and are not
// restricted.
func WithOrigins(patterns ...string) Option {
	return func(o *options) { o.origins = append(o.origins, patterns...) }
}

// WithHeader adds a header to the requests of a client, such as a token for a proxy in front of
// the server. It is not the metadata of calls.
func WithHeader(key, value string) Option { return func(o *options) { o.header.Add(key, value) } }

// WithPending sets how many connections that have not become WebSockets yet a listener holds at
// most, and for how long; 1,024 and 5 s by default. Further ones are closed.
func WithPending(most int, within time.Duration) Option {
	return func(o *options) { o.pending, o.hello = max(1, most), max(within, time.Millisecond) }
}

type carrier struct {
	inner tandem.Transport
	opts  options
}

// New returns the transport over another one: [transport.TCP], [transport.TLS], a proxy's, unix
// sockets. An address is that of the inner transport, with or without a path: host:port/path.
func New(inner tandem.Transport, opts ...Option) tandem.Transport {
	return &carrier{inner, newOptions(opts)}
}

// Secure returns the transport with TLS beneath the WebSockets, as in wss://.
func (t *carrier) Secure(config *tls.Config) (tandem.Transport, error) {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"} // a WebSocket begins with a request of HTTP/1.1
	inner, err := transport.Secured(t.inner, config)
	if err != nil {
		return nil, err
	}
	return &carrier{inner, t.opts}, nil
}

// split divides an address into the inner transport's and the path.
func (t *carrier) split(address string) (inner, path string) {
	if i := strings.IndexByte(address, '/'); i > 0 {
		return address[:i], address[i:]
	}
	return address, t.opts.path
}

func (t *carrier) Dial(ctx context.Context, address string) (net.Conn, error) {
	inner, path := t.split(address)
	raw, err := t.inner.Dial(ctx, inner)
	if err != nil {
		return nil, fmt.Errorf("websocket: %s: %w", address, err)
	}
	conn, err := t.upgrade(ctx, raw, inner, path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("websocket: %s: %w", address, err), raw.Close())
	}
	return newConn(conn, raw), nil
}

// upgrade requests a WebSocket from the server at the other end of raw.
func (t *carrier) upgrade(ctx context.Context, raw net.Conn, host, path string) (*ws.Conn, error) {
	once := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return transport.ExpectPlain(raw, nil), nil },
		DisableKeepAlives: true,
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, _, err := ws.Dial(ctx, "ws://"+host+path, &ws.DialOptions{ //nolint:bodyclose // the documentation of ws.Dial says that it need not be closed
		HTTPClient:   &http.Client{Transport: once, CheckRedirect: stay},
		HTTPHeader:   t.opts.header,
		Subprotocols: []string{Subprotocol},
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil && conn.Subprotocol() != Subprotocol {
		err = fmt.Errorf("the server does not speak the subprotocol %q", Subprotocol)
	}
	return conn, err
}

// stay follows no redirect: it would send the request for another server over this connection.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (t *carrier) Listen(ctx context.Context, address string) (net.Listener, error) {
	inner, path := t.split(address)
	ln, err := t.inner.Listen(ctx, inner)
	if err != nil {
		return nil, err
	}
	opts := t.opts
	opts.path = path
	return newListener(ln, opts), nil
}
