// Package web serves HTTP/1.1 and HTTP/2 on the port: JSON for whoever has an HTTP
// client, and unmodified clients of Connect, gRPC and gRPC-Web.
//
//	srv := server.New(server.WithProtocols(web.New()))
//
// HTTP/2 is spoken to clients that begin with its preface, and to those that ask
// for "h2" when TLS begins.
//
// # Names
//
// The path of a method is its name with a slash for the last dot: "Arith.Mul" is
// called by POST /Arith/Mul. A service of Protocol Buffers is registered under its
// full name, so that its clients find it:
//
//	srv.RegisterName("shop.v1.Carts", carts{})      // POST /shop.v1.Carts/Add
//	srv.Alias("shop.v1.Carts", "Carts")             // or if it is there under another
//
// # Messages
//
// JSON is that of encoding/json, for messages of Protocol Buffers that of their
// own JSON mapping (https://protobuf.dev/programming-guides/json). A method of one
// argument takes it as it is, one of several takes an array of them, one of none
// takes anything empty; results likewise. Over "application/proto", and the
// protobuf of gRPC, methods with one argument and one result are called, which
// must be messages of Protocol Buffers.
//
// # Methods that may be called by GET
//
// Those that [server.MethodSafe] marks, with the message in the query: as Connect's
// clients do (https://connectrpc.com/docs/protocol), or just ?message={"A":1} or ?A=1.
//
// # Metadata, errors, deadlines
//
// The header of a request is the call's metadata, and the call's trailer its
// trailer, in the way of each protocol; the values of keys that end in "-bin" are
// bytes, which cross in base64. [Header] has the header of the response. Codes,
// messages and details of errors cross as they are: as gRPC's status, or as JSON
// with Connect's mapping to HTTP statuses.
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

// WithIdleTimeout sets after how long without a request a connection is closed;
// 5 minutes by default.
func WithIdleTimeout(d time.Duration) Option { return func(o *options) { o.idle = d } }

// WithMaxHeader sets how many bytes the header of a request may have, its first line
// included; 32 KiB by default.
func WithMaxHeader(n int) Option { return func(o *options) { o.maxHeader = n } }

// WithMaxStreams sets how many requests a connection of HTTP/2 may have at a time; 250
// by default, and never more than [server.WithMaxOpenCalls]. One that its client resets
// counts until its handler has returned. Clients queue what goes beyond.
func WithMaxStreams(n int) Option { return func(o *options) { o.maxStreams = max(1, n) } }

// WithHandler serves something else on the port, at a pattern of [http.ServeMux].
// [Conn] of the request's context has the server's methods; see there. New
// panics for a pattern that is wrong or given twice, as the ServeMux does.
func WithHandler(pattern string, h http.Handler) Option {
	return func(o *options) { o.mounts = append(o.mounts, mount{pattern, h}) }
}

type protocol struct {
	opts     options
	handler  http.Handler
	entering ticket // of the calls that are entering
}

// New returns the protocol, for [server.WithProtocols].
func New(opts ...Option) server.Protocol {
	p := &protocol{
		opts:     options{idle: defaultIdle, maxHeader: defaultMaxHeader, maxStreams: defaultMaxStreams},
		entering: make(ticket, maxEntering),
	}
	for _, o := range opts {
		o(&p.opts)
	}
	mux := http.NewServeMux()
	mux.Handle("/", newGateway())
	for _, m := range p.opts.mounts {
		mux.Handle(m.pattern, m.handler)
	}
	p.handler = mux
	if p.opts.cors != nil {
		p.handler = p.opts.cors.wrap(mux)
	}
	return p
}

func (*protocol) Name() string { return "web" }

// Codecs returns Protocol Buffers: methods with such messages need no option then.
func (*protocol) Codecs() []tandem.Codec { return []tandem.Codec{protobuf.Codec()} }

// NextProtos is for clients that use TLS.
func (*protocol) NextProtos() []string { return []string{"h2", "http/1.1"} }

// longestMethod is how many bytes the method of a request may have, as GET.
const longestMethod = 16

// Match takes what begins as a request of HTTP: a word of capitals, a blank, and
// a path, an asterisk or a URL. A CONNECT is net/rpc's, or asks for a proxy. What
// HTTP/2 begins with looks like a request: "PRI * HTTP/2.0".
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

// Serve serves the requests of a connection until it ends.
func (p *protocol) Serve(ctx context.Context, c *server.Conn) error {
	h := &conn{
		Conn: c, hosts: p.hostsOf(c), defaultHosts: p.opts.hosts == nil,
		all: p.entering, entering: make(ticket, maxEnteringConn),
		begun: make(chan struct{}), asked: make(chan struct{}), over: make(chan struct{}),
	}
	s := p.newServer(ctx, h)
	c.OnDrain(func() { h.drain(ctx, s) })
	select {
	case <-c.Draining():
		h.leaving.Store(true) // for the first answer: OnDrain's call may come after it
	default:
	}
	// What reads the first line sets a deadline of its own only afterwards. OnDrain takes
	// deadlines away if the server drains already.
	if err := c.SetReadDeadline(time.Now().Add(c.StallTimeout())); err != nil {
		return err
	}
	ln := &oneListener{conn: h, done: make(chan struct{})}
	err := s.Serve(ln)
	if ln.accepted { // else the time to drain was over before, and nobody reads the connection
		<-h.over
	}
	if err == http.ErrServerClosed || err == errNoMore { //nolint:errorlint // they are not wrapped
		err = nil
	}
	return err
}
