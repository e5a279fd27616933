package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// Router finds the methods of requests whose paths are not names of methods, as package
// protocol/rest does. Its methods are called concurrently.
type Router interface {
	// Route returns the route of a request by its verb and path; nil if none has this path. It is
	// called before interceptors, and must not read the body.
	Route(r *http.Request) *Route
	// Paths describes all routes.
	Paths() []Path
}

// Route is how one request calls a method with messages of Protocol Buffers. The rest is as with
// other JSON: errors, deadlines, limits, metadata, and the forms of streams.
type Route struct {
	// Method is the method's name. If it is empty, the path has no route with the request's verb.
	Method string
	// Allow are the verbs that the path has, if Method is empty.
	Allow []string
	// Body says what the request's body is: the message ("*"), the field of it with this JSON
	// name, or nothing ("").
	Body string
	// Bind sets in the message what the request says beside its body. It is called once for each
	// message; its error is the caller's fault.
	Bind func(m proto.Message) error
	// Result returns the JSON of the response; nil for that of the whole message.
	Result func(m proto.Message) ([]byte, error)
}

// Path describes the requests of a route, for /openapi.json (see [WithPages]).
type Path struct {
	Verb   string      // HTTP's method
	Path   string      // with variables as in OpenAPI, such as /v1/shelves/{shelf}
	Method string      // the method's name
	Params []Parameter // variables of the path, and parameters of the query
	Body   string      // see [Route]
	Result string      // the field of the response that is sent; "" for the whole message
}

// Parameter describes a parameter of a [Path].
type Parameter struct {
	Name  string
	Query bool // else it is in the path
	Field protoreflect.FieldDescriptor
}

// WithRouter serves the routes of r beside the methods' own paths, which come first. Requests for
// its routes pass the same interceptors and limits. A response that is a stream has a message a
// line, or events for callers that accept them.
func WithRouter(r Router) Option { return func(o *options) { o.router = r } }

// route finds the route of a request whose path is not a method's.
func (g *gateway) route(x *exchange) {
	if g.router == nil || x.method != nil {
		return
	}
	r := g.router.Route(x.req)
	if r == nil {
		return
	}
	x.route = r
	if r.Method != "" {
		x.name = r.Method
		x.method = x.conn.Method(r.Method)
	}
}

// routedContent is the content of a request for a route.
func routedContent(r *http.Request) content {
	k := contentOf(r)
	if r.Method == http.MethodGet || r.Header.Get("Content-Type") == "" && r.ContentLength == 0 && r.Method != http.MethodPost {
		k = content{protocol: "connect", codec: "json", streaming: new(false)}
	}
	if k.protocol != "connect" || k.codec != "json" {
		return content{} // the caller must send JSON, for which a page of another site needs permission
	}
	return k
}

// forConnect returns the request of a route as connect knows it.
func (x *exchange) forConnect() *http.Request {
	if x.route == nil {
		return x.req
	}
	copied := *x.req
	copied.Method = http.MethodPost
	copied.Header = maps.Clone(copied.Header)
	copied.Header.Set("Content-Type", typeJSON)
	return &copied
}

// wrongRoute answers a request with a verb for which its path has no route.
func (g *gateway) wrongRoute(w http.ResponseWriter, x *exchange) {
	allow := strings.Join(slices.Sorted(slices.Values(x.route.Allow)), ", ")
	why := tandem.Errorf(tandem.Unknown, "%.20s: %.200q is called by %s", x.req.Method, x.req.URL.Path, allow)
	g.refuse(w, x, why, func(err error) {
		w.Header().Set("Allow", allow)
		writeError(w, http.StatusMethodNotAllowed, err)
	})
}

// decode decodes a message of a route.
func (r *Route) decode(c tandem.Codec, body []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return tandem.Errorf(tandem.Unimplemented, "a route needs a message of Protocol Buffers, not %T", v)
	}
	if err := r.decodeBody(c, body, m); err != nil {
		return server.Unfit(err)
	}
	return server.Unfit(r.Bind(m))
}

func (r *Route) decodeBody(c tandem.Codec, body []byte, m proto.Message) error {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil
	case r.Body == "":
		return errors.New("there is a body, and the route takes none")
	case r.Body == "*":
		return codec.Decode(c, body, m)
	case !json.Valid(body):
		return errors.New("the body is not JSON")
	}
	return codec.Decode(c, slices.Concat([]byte("{"), encodeText(r.Body), []byte(":"), body, []byte("}")), m)
}

// encodeRouted encodes a response of a route; ok is false if it is as that of any other call.
func (x *exchange) encodeRouted(v any) (b []byte, ok bool, err error) {
	m, isProto := v.(proto.Message)
	if x.route == nil || x.route.Result == nil || !isProto {
		return nil, false, nil
	}
	b, err = x.route.Result(m)
	return b, true, err
}
