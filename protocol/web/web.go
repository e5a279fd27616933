// Package web (stable) serves HTTP/1.1 and HTTP/2 on the server's port: JSON for any HTTP client,
// and unmodified clients of Connect, gRPC and gRPC-Web.
//
//	srv := server.New(server.WithProtocols(web.New()))
//
// HTTP/2 is used with clients that begin with its preface, and with those that ask for "h2"
// in the TLS handshake.
//
// # Names
//
// The path of a method is its name with a slash in place of the last dot: "Arith.Mul" is
// called by POST /Arith/Mul. A Protocol Buffers service is registered under its full name,
// which its clients use:
//
//	srv.RegisterName("shop.v1.Carts", carts{})      // POST /shop.v1.Carts/Add
//	srv.Alias("shop.v1.Carts", "Carts")             // if it is registered as "Carts"
//
// # Messages
//
// JSON is encoding/json's; messages of Protocol Buffers use their own JSON mapping
// (https://protobuf.dev/programming-guides/json). A method with one argument takes it as it
// is, a method with several takes an array of them, a method with none takes an empty body,
// {}, [] or null; results are sent by the same rules. "application/proto", and protobuf over
// gRPC, need methods with one argument and one result, both messages of Protocol Buffers.
//
// # Methods that may be called by GET
//
// GET calls the methods that [server.MethodSafe] marks, with the message in the query: as
// Connect's clients send it (https://connectrpc.com/docs/protocol), or just
// ?message={"A":1} or ?A=1.
//
// # Streams of plain HTTP callers
//
// A caller without a client library chooses by Accept how a stream answers: "text/event-stream"
// or "application/x-ndjson", a message a line. Its request is one message of JSON, the query
// of a GET, or "application/x-ndjson".
//
// # Metadata, errors, deadlines
//
// The header of a request is the call's metadata, and the call's trailer is sent as each
// protocol sends trailers; values of keys that end in "-bin" are bytes, in base64 on the
// wire. [Header] returns the header of the response. Codes, messages and details of errors
// are sent unchanged: as gRPC's status, or as JSON with Connect's mapping to HTTP statuses.
//
// Interceptors run before a message is read, decompressed and decoded.
package web

import (
	"context"
	"net/http"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/server"
)

// Option changes what [New] returns.
type Option func(*options)

type options struct {
	idle       time.Duration
	maxHeader  int
	maxStreams int
	mounts     []mount
	cors       *CORS
	hosts      []string // nil for the default
	unknown    UnknownFields
	router     Router
	document   bool // /openapi.json is served
	netHTTP2   bool
}

type mount struct {
	pattern string
	handler http.Handler
}

const (
	defaultIdle       = 5 * time.Minute
	defaultMaxHeader  = 32 << 10
	defaultMaxStreams = 250
)

// WithIdleTimeout sets how long a connection may have no request before it is closed; 5
// minutes by default.
func WithIdleTimeout(d time.Duration) Option { return func(o *options) { o.idle = d } }

// WithMaxHeader sets how many bytes the header of a request may have, including its first
// line; 32 KiB by default.
func WithMaxHeader(n int) Option { return func(o *options) { o.maxHeader = n } }

// WithMaxStreams sets how many requests an HTTP/2 connection may have in flight; 250 by
// default, and never more than [server.WithMaxOpenCalls]. A request that its client resets
// counts until its handler has returned. Clients queue further requests.
func WithMaxStreams(n int) Option { return func(o *options) { o.maxStreams = max(1, n) } }

// WithHandler serves h on the same port, at a pattern of [http.ServeMux]. [Conn] of the
// request's context gives access to the server's methods. New panics if a pattern is
// malformed or given twice, as ServeMux does.
func WithHandler(pattern string, h http.Handler) Option {
	return func(o *options) { o.mounts = append(o.mounts, mount{pattern, h}) }
}

type protocol struct {
	opts     options
	handler  http.Handler
	mux      *http.ServeMux // what handler serves, without CORS
	gateway  *gateway
	quick    bool   // see mayBeQuick
	entering ticket // calls that are entering, on all connections
}

// WithNetHTTP2 serves HTTP/2 by the engine of net/http, with which a call over gRPC takes several times
// the CPU. It is there in case a client has trouble with tandem's own engine, which we want to know
// of; it will be removed after two releases.
func WithNetHTTP2() Option { return func(o *options) { o.netHTTP2 = true } }

// netHTTP2 is whether servers of this process have [WithNetHTTP2]. Tests set it.
var netHTTP2 bool

// New returns the protocol, for [server.WithProtocols].
func New(opts ...Option) server.Protocol {
	p := &protocol{
		opts:     options{netHTTP2: netHTTP2, idle: defaultIdle, maxHeader: defaultMaxHeader, maxStreams: defaultMaxStreams},
		entering: make(ticket, maxEntering),
	}
	for _, o := range opts {
		o(&p.opts)
	}
	p.mux, p.gateway, p.quick = http.NewServeMux(), newGateway(&p.opts), mayBeQuick(&p.opts)
	p.mux.Handle("/", p.gateway)
	if p.opts.document {
		p.opts.mounts = append(p.opts.mounts, mount{"GET /openapi.json", http.HandlerFunc(p.serveOpenAPI)})
	}
	for _, m := range p.opts.mounts {
		p.mux.Handle(m.pattern, m.handler)
	}
	p.handler = p.mux
	if p.opts.cors != nil {
		p.handler = p.opts.cors.wrap(p.mux, p.opts.router)
	}
	return p
}

func (*protocol) Name() string { return "web" }

// Codecs returns the Protocol Buffers codec, so that methods with such messages need no
// option.
func (*protocol) Codecs() []tandem.Codec { return []tandem.Codec{protobuf.Codec()} }

// NextProtos returns the protocols offered in the TLS handshake.
func (*protocol) NextProtos() []string { return []string{"h2", "http/1.1"} }

// longestMethod is the limit of a request's HTTP method, in bytes.
const longestMethod = 16

// Match accepts bytes that begin an HTTP request: a word of capitals, a space, and a path,
// an asterisk or a URL. CONNECT is refused: net/rpc uses it, and otherwise it asks for a
// proxy. The preface of HTTP/2 looks like a request: "PRI * HTTP/2.0".
func (*protocol) Match(first []byte) server.Verdict {
	for i, c := range first {
		switch {
		case i > longestMethod:
			return server.No
		case 'A' <= c && c <= 'Z' || c == '-' && i > 0:
			continue
		case c != ' ' || i == 0 || string(first[:i]) == http.MethodConnect:
			return server.No
		case i+1 == len(first):
			return server.NeedMore
		}
		switch first[i+1] {
		case '/', '*', 'h', 'H':
			return server.Yes
		}
		return server.No
	}
	return server.NeedMore
}

// Serve serves the requests of a connection until it ends. The stack of an idle connection's goroutine
// can be halved by the garbage collector if little of it is used: so what is called here and in
// serveHTTP2 before it waits is in functions of its own.
func (p *protocol) Serve(ctx context.Context, c *server.Conn) error {
	h := p.newConn(c)
	if !p.opts.netHTTP2 {
		switch ok, err := h.readPreface(); {
		case err != nil:
			return err
		case ok:
			return p.serveHTTP2(ctx, h)
		}
	}
	return p.serveNet(ctx, h)
}

func (p *protocol) newConn(c *server.Conn) *conn {
	return &conn{
		Conn: c, hosts: p.hostsOf(c), defaultHosts: p.opts.hosts == nil,
		all: p.entering, entering: make(ticket, maxEnteringConn),
		firstRequest: make(chan struct{}), connEnded: make(chan struct{}),
	}
}

// serveNet serves a connection by net/http.
func (p *protocol) serveNet(ctx context.Context, h *conn) error {
	h.versionKnown = make(chan struct{})
	s := p.newServer(ctx, h)
	h.OnDrain(func() { h.drain(ctx, s) })
	select {
	case <-h.Conn.Draining():
		h.draining.Store(true) // for the first response: OnDrain may call drain only after it
	default:
	}
	// net/http looks for the preface of HTTP/2 before it sets a deadline of its own. This
	// comes after OnDrain, which removes the deadline if the server drains already.
	if err := h.Conn.SetReadDeadline(time.Now().Add(h.StallTimeout())); err != nil {
		return err
	}
	ln := &oneListener{conn: h, done: make(chan struct{})}
	err := s.Serve(ln)
	if ln.accepted { // else the time to drain was over before, and no goroutine reads the connection
		<-h.connEnded
	}
	if err == http.ErrServerClosed || err == errNoMore { //nolint:errorlint // they are not wrapped
		err = nil
	}
	return err
}
