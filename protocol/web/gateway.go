package web

import (
	"compress/gzip"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
)

// gateway calls methods.
type gateway struct {
	codecs   codecs
	gzip     tandem.Compressor
	mark     []byte // see sealed
	failures *connect.ErrorWriter
	handlers sync.Map // of *connect.Handler by handlerKey: there are as many as different limits
}

// handlerKey is what connect must know of a method.
type handlerKey struct {
	kind tandem.Kind
	most int
	safe bool
}

func newGateway() *gateway {
	return &gateway{codecs: newCodecs(), gzip: compress.Gzip(), mark: newMark(), failures: connect.NewErrorWriter()}
}

// ServeHTTP makes one call.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := Conn(r.Context())
	if why := ambiguous(r); why != "" {
		refuseMalformed(w, r, conn, why)
		return
	}
	name := methodOf(r.URL.Path)
	m := conn.Method(name)
	if m == nil {
		await(w, r, conn)
		g.noMethod(w, r, conn, name)
		return
	}
	var fields url.Values
	if r.Method == http.MethodGet {
		fields = plainFields(r.URL.Query())
		r = withDefaults(r)
	}
	kind := contentOf(r)
	x := &exchange{conn: conn, method: m, name: name, req: r, codec: g.codecs[kind.codec], peer: peerOf(conn, kind.protocol), fields: fields, mark: g.mark, gzip: g.gzip}
	switch {
	case r.Method != http.MethodPost && (r.Method != http.MethodGet || !m.Safe):
		await(w, r, conn)
		w.Header().Set("Allow", allowed(m))
		writeError(w, http.StatusMethodNotAllowed, tandem.Errorf(tandem.Unknown, "%.20s: method %s is called by %s", r.Method, m.Name, allowed(m)))
		return
	case x.codec == nil || kind.streaming != nil && *kind.streaming != (m.Kind == tandem.Streaming):
		await(w, r, conn)
		w.Header().Set("Accept-Post", accepted(m))
		writeError(w, http.StatusUnsupportedMediaType,
			tandem.Errorf(tandem.Unknown, "%s takes %s, not %.100q", m.Name, accepted(m), r.Header.Get("Content-Type")))
		return
	}
	x.prepare(w)
	x.limitRefusal()
	defer x.abandon()
	r = x.forMethod(w, r)
	r.Body = newReserving(x, r)
	g.handler(m).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
}

// methodOf returns the name of the method at a path.
func methodOf(path string) string {
	service, method, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case !ok && !strings.Contains(service, "."):
		return service // one without a dot
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
		types = "application/connect+json, application/connect+proto"
	}
	return types + ", application/grpc, application/grpc-web"
}

// noMethod answers a request for a method that does not exist.
func (g *gateway) noMethod(w http.ResponseWriter, r *http.Request, conn *server.Conn, name string) {
	if name == "" {
		name = strings.TrimPrefix(r.URL.Path, "/")
	}
	kind := contentOf(r)
	call := &tandem.Call{
		Method: name, Metadata: Metadata(r.Header), Codec: kind.codec, Peer: peerOf(conn, kind.protocol),
	}
	if kind.streaming != nil && *kind.streaming {
		call.Kind = tandem.Streaming
	}
	done := make(chan error, 1)
	why := tandem.Errorf(tandem.Unimplemented, "no method at %.200q", r.URL.Path)
	place, err := enter(r.Context(), w)
	if err == nil {
		conn.NoMethod(r.Context(), call, why, func(err error) { done <- err })
		err = <-done
		place.leave()
	}
	limitAnswer(http.NewResponseController(w), r, conn, 0)
	if tandem.CodeOf(err) == tandem.Unimplemented {
		g.refuse(w, r, err)
	} else { // a plugin's
		_ = g.failures.Write(w, r, outward(err)) // if it fails the client is gone
	}
}

// refuse answers a call of no method. Clients of gRPC and of streams read errors in
// their own way only.
func (g *gateway) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if kind := contentOf(r); kind.protocol == "grpc" || kind.protocol == "grpc-web" || kind.streaming != nil && *kind.streaming {
		_ = g.failures.Write(w, r, outward(err)) // if it fails the client is gone
		return
	}
	writeError(w, http.StatusNotFound, err)
}

// content is what the header of a request says of its messages.
type content struct {
	protocol  string // as in [tandem.Peer]
	codec     string // connect's name of it
	streaming *bool  // whether it is a stream; nil where that can't be told
}

func contentOf(r *http.Request) content {
	if r.Method == http.MethodGet {
		return content{"connect", r.URL.Query().Get("encoding"), new(false)}
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
		return content{name, sub, nil}
	case name == "connect" && plus:
		return content{"connect", sub, new(true)}
	case plus || parameters != "" && !isUTF8(parameters):
		return content{}
	}
	return content{"connect", kind, new(false)}
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

// handler returns what reads and writes the messages of a method.
func (g *gateway) handler(m *server.Method) *connect.Handler {
	key := handlerKey{m.Kind, m.MaxMessage, m.Safe}
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
			func() connect.Decompressor { return &sealed{mark: g.mark} },
			func() connect.Compressor { return gzip.NewWriter(nil) }),
		connect.WithRequestGate(func(ctx context.Context, _ connect.Spec, _ connect.Peer, _ http.Header) (context.Context, error) {
			return ctx, exchangeOf(ctx).admit(ctx)
		}),
	}
	if key.safe {
		opts = append(opts, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
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

// compressAbove is from how many bytes answers are compressed, for clients that
// take them so.
const compressAbove = 1 << 10

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }
