package web

import (
	"compress/gzip"
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
)

// gateway serves the server's methods over HTTP.
type gateway struct {
	codecs   codecs
	router   Router       // nil for none
	checked  *checkedJSON // the codec "json" if unknown fields are not ignored, else nil
	gzip     tandem.Compressor
	mark     []byte // prefix of compressed messages; see markedGzip
	failures *connect.ErrorWriter
	handlers sync.Map     // *connect.Handler by handlerKey: one for each combination that methods have
	lastSize atomic.Int64 // of an encoded message
}

// handlerKey holds the properties that a connect handler depends on.
type handlerKey struct {
	kind tandem.Kind
	most int
	safe bool
	only bool // unary, but its messages are read and written as those of a stream
}

func newGateway(o *options) *gateway {
	g := &gateway{router: o.router, codecs: newCodecs(), gzip: compress.Gzip(), mark: newMark(), failures: connect.NewErrorWriter()}
	if u := newUnknownFields(o.unknown); u != nil {
		g.checked = &checkedJSON{jsonCodec: g.codecs["json"].(jsonCodec), fields: u}
		delete(g.codecs, "json") // what makes calls without an exchange leaves those with JSON to the gateway
	}
	return g
}

// codec returns the codec of an exchange, by connect's name for it; nil for none.
func (g *gateway) codec(x *exchange, name string) tandem.Codec {
	if name == "json" && g.checked != nil {
		c := *g.checked
		c.x = x
		return c
	}
	return g.codecs[name]
}

// ServeHTTP makes one call.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if encodesSlash(r) {
		refuseMalformed(w, r, Conn(r.Context()), "its path encodes a slash")
		return
	}
	bad := isBodyOfGet(r)
	if bad {
		w.Header().Set("Connection", "close")
	}
	w, r, finish := untexted(w, r)
	defer finish()
	x := g.newExchange(w, r)
	m := x.method
	switch {
	case m == nil && x.route != nil && x.route.Method == "":
		g.wrongRoute(w, x)
		return
	case m == nil:
		g.noMethod(w, x)
		return
	case !x.hasVerb():
		g.wrongVerb(w, x)
		return
	case bad:
		g.bodyOfGet(w, x)
		return
	case x.codec == nil || x.plain == nil && !x.kind.fits(m):
		g.wrongType(w, x)
		return
	}
	x.gate, x.only = g.newRefusalGate(w, x), x.hasOnly()
	x.limitRefusal()
	defer x.abandon()
	if x.plain != nil {
		g.servePlain(w, x)
		return
	}
	r = compressedAsAsked(x.forMethod(w, x.forConnect()), x.kind.protocol)
	r.Body = newReserving(x, r)
	g.handler(x).ServeHTTP(x.gate, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
}

// compressedAsAsked makes connect compress messages of gRPC for clients that compress their own, as
// grpc-go's server does: those that can read compressed messages always say so, on any network, and
// compressing takes longer than the rest of a call.
func compressedAsAsked(r *http.Request, protocol string) *http.Request {
	const accept = "Grpc-Accept-Encoding"
	if protocol == "connect" || r.Header[accept] == nil || r.Header.Get("Grpc-Encoding") == "gzip" {
		return r
	}
	other := *r
	other.Header = maps.Clone(r.Header)
	delete(other.Header, accept)
	return &other
}

// newExchange returns the exchange of a request, which may name a method that does not exist.
func (g *gateway) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	conn := Conn(r.Context())
	x := &exchange{conn: conn, name: methodOf(r.URL.Path), req: r, mark: g.mark, gzip: g.gzip}
	if x.method = conn.Method(x.name); x.method == nil && x.name == "" {
		x.name = strings.TrimPrefix(r.URL.Path, "/")
	}
	g.route(x)
	switch {
	case x.route != nil:
		x.kind = routedContent(r)
	case r.Method == http.MethodGet:
		x.fields = plainFields(r.URL.Query())
		x.req = withDefaults(r)
		fallthrough
	default:
		x.kind = contentOf(x.req)
	}
	x.codec, x.peer = g.codec(x, x.kind.codec), peerOf(conn, x.kind.protocol)
	x.plain = x.plainStream()
	x.prepare(w)
	return x
}

// methodOf returns the name of the method at a path, "" if a path can't have one.
func methodOf(path string) string {
	service, method, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case !ok && !strings.Contains(service, "."):
		return service // a name without a dot
	case !ok || strings.ContainsAny(method, "./"):
		return ""
	}
	return service + "." + method
}

func allowed(m *server.Method) string {
	if m.Safe {
		return "GET, POST"
	}
	return "POST"
}

// accepted lists the types of messages that a method takes.
func accepted(m *server.Method) string {
	types := "application/json, application/proto"
	if m.Kind == tandem.Streaming {
		types = "application/x-ndjson, application/connect+json, application/connect+proto"
	}
	return types + ", application/grpc, application/grpc-web, application/grpc-web-text"
}

// content is what a request's header says about its messages.
type content struct {
	protocol  string // protocol as in [tandem.Peer]
	codec     string // connect's name for it
	streaming *bool  // whether it is a stream; nil if the header does not say
	lines     bool   // it is a stream of JSON values, one a line
}

// fits reports whether a method takes such messages.
func (k content) fits(m *server.Method) bool {
	return !k.lines && (k.streaming == nil || *k.streaming == (m.Kind == tandem.Streaming))
}

func contentOf(r *http.Request) content {
	if r.Method == http.MethodGet {
		return content{protocol: "connect", codec: r.URL.Query().Get("encoding"), streaming: new(false)}
	}
	kind, parameters, _ := strings.Cut(strings.ToLower(r.Header.Get("Content-Type")), ";")
	kind, found := strings.CutPrefix(strings.TrimSpace(kind), "application/")
	switch name, sub, plus := strings.Cut(kind, "+"); {
	case !found:
		return content{}
	case name == "grpc" || name == "grpc-web":
		if !plus {
			sub = "proto"
		}
		return content{protocol: name, codec: sub}
	case name == "connect" && plus:
		return content{protocol: "connect", codec: sub, streaming: new(true)}
	case plus || parameters != "" && !isUTF8(parameters):
		return content{}
	case isLines("application/" + kind):
		return content{protocol: "connect", codec: "json", streaming: new(true), lines: true}
	}
	return content{protocol: "connect", codec: kind, streaming: new(false)}
}

func isUTF8(parameters string) bool {
	return strings.ReplaceAll(strings.ReplaceAll(parameters, " ", ""), "\"", "") == "charset=utf-8"
}

// peerOf returns the connection's peer, with the protocol that a call uses.
func peerOf(c *server.Conn, protocol string) *tandem.Peer {
	p := *c.Peer()
	p.Protocol = protocol
	return &p
}

// handler returns the connect handler that reads and writes the messages of a call.
func (g *gateway) handler(x *exchange) *connect.Handler {
	m := x.method
	key := handlerKey{kind: m.Kind, most: m.MaxMessage, safe: m.Safe}
	key.only = x.only
	if h, ok := g.handlers.Load(key); ok {
		return h.(*connect.Handler)
	}
	h, _ := g.handlers.LoadOrStore(key, g.newHandler(key))
	return h.(*connect.Handler)
}

func (g *gateway) newHandler(key handlerKey) *connect.Handler {
	opts := []connect.HandlerOption{
		connect.WithCodec(passing{"proto"}), connect.WithCodec(passing{"json"}), connect.WithCodec(passing{"json; charset=utf-8"}),
		connect.WithReadMaxBytes(key.most),
		connect.WithCompressMinBytes(compressAbove),
		connect.WithCompression("gzip",
			func() connect.Decompressor { return &markedGzip{mark: g.mark} },
			func() connect.Compressor { return gzip.NewWriter(nil) }),
		connect.WithRequestGate(func(ctx context.Context, _ connect.Spec, _ connect.Peer, _ http.Header) (context.Context, error) {
			return ctx, exchangeOf(ctx).admit(ctx)
		}),
	}
	if key.safe {
		opts = append(opts, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	}
	if key.only {
		return connect.NewBidiStreamHandler("/", func(ctx context.Context, s *connect.BidiStream[message, message]) error {
			return exchangeOf(ctx).single(s.Conn())
		}, opts...)
	}
	if key.kind == tandem.Streaming {
		return connect.NewBidiStreamHandler("/", func(ctx context.Context, s *connect.BidiStream[message, message]) error {
			return exchangeOf(ctx).streaming(s.Conn())
		}, opts...)
	}
	return connect.NewUnaryHandler("/", func(ctx context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
		return exchangeOf(ctx).unary(r)
	}, opts...)
}

// compressAbove is the smallest response, in bytes, that is compressed for clients that
// accept compression.
const compressAbove = 1 << 10

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }
