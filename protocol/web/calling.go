package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"syscall"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
	"github.com/tandem-rpc/tandem/transport"
)

// GRPC returns the protocol, for [client.WithProtocols], that calls gRPC servers at targets
// grpc://host:port, over HTTP/2 with its preface. With TLS, the client's configuration must
// offer "h2", which these servers require.
//
// The last dot of a method's name becomes the slash of its path: "shop.v1.Carts.Add" is
// /shop.v1.Carts/Add. A method has one argument and one result. Messages are Protocol
// Buffers, unless the client or the call chooses JSON, which is encoding/json's. Metadata
// is sent and received, the response's header and trailer as one; so are the deadline,
// codes, and the details of errors. gRPC has no one-way calls: they wait for the response.
//
// Streams of all kinds are supported, on connections of their own, so that a slow receiver
// delays no other call. A stream is open when its request is sent: if the server refuses
// it, Recv returns the error.
func GRPC() client.Protocol { return newCalling("grpc", grpcDialect{}) }

// Connect is [GRPC] for Connect servers, at targets connect://host:port, over HTTP/1.1, or
// over HTTP/2 if the client's TLS configuration offers "h2" and the server accepts it. Without
// TLS, streams use HTTP/2 if the server supports it, which the first stream finds out.
// Otherwise each stream has an HTTP/1.1 connection, and many servers then support no
// bidirectional streams.
func Connect() client.Protocol { return newCalling("connect", connectDialect{}) }

// ConnectHTTP2 is [Connect] for servers without TLS that are known to support HTTP/2, as all servers
// of this package do: unary calls use it too, which share connections and cost less than over
// HTTP/1.1. Calls to a server that supports HTTP/1.1 only fail. With TLS there is no difference.
func ConnectHTTP2() client.Protocol {
	c := newCalling("connect", connectDialect{})
	c.prior = true
	return c
}

// clientProtocol is a protocol for clients: gRPC or Connect.
type clientProtocol struct {
	name    string
	dialect dialect
	codecs  []tandem.Codec
	prior   bool // servers without TLS are known to support HTTP/2
}

func newCalling(name string, d dialect) *clientProtocol {
	return &clientProtocol{name: name, dialect: d, codecs: []tandem.Codec{protobuf.Codec(), codec.JSON()}}
}

func (c *clientProtocol) Name() string { return c.name }

// Codecs returns the Protocol Buffers and JSON codecs.
func (c *clientProtocol) Codecs() []tandem.Codec { return c.codecs }

// Connect connects to a server.
func (c *clientProtocol) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	first, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	agreed := ""
	state := transport.TLSState(first)
	if state != nil {
		agreed = state.NegotiatedProtocol
	}
	if c.dialect.needsHTTP2() || agreed == "h2" || c.prior && state == nil {
		return connectHTTP2(ctx, c, r, first)
	}
	calls := &caller{Server: httpcalls.New(first, r.Dial), clientProtocol: c, remote: r, streams: newVersion(agreed != "")}
	calls.http2 = newHTTP2Caller(c, r, schemeOf(first))
	return calls, nil
}

// caller makes calls over Connect to one server, over HTTP/1.1 or, if they are streams and the server
// supports it, over HTTP/2.
type caller struct {
	*httpcalls.Server
	*clientProtocol

	remote  *client.Remote
	streams *version
	http2   *http2Caller // for streams
}

// Close ends the calls in flight, and all connections.
func (c *caller) Close() error {
	return errors.Join(c.Server.Close(), c.http2.Close())
}

// Carry makes a call.
func (c *caller) Carry(ctx context.Context, r *client.Request) error {
	argument, err := r.Argument()
	if err != nil {
		return err
	}
	if err := httpcalls.Check(r.Call.Metadata, true); err != nil {
		return err
	}
	req := connect.NewRequest(&message{b: argument})
	addMetadata(req.Header(), r.Call.Metadata)
	httpcalls.Strip(req.Header())
	return c.Do(ctx, func(ctx context.Context, a *httpcalls.Attempt) error {
		over := &recordingClient{http: c.HTTP}
		resp, err := c.client(over, r.Call).CallUnary(ctx, req)
		if err != nil {
			return c.failed(r.Call, err, a, over.lost())
		}
		r.Reply = resp.Msg.b
		r.Call.Trailer = metadataOf(resp.Header(), resp.Trailer())
		return nil
	})
}

// metadataOf returns a response's header and trailer as one.
func metadataOf(header, trailer http.Header) tandem.Metadata {
	md := Metadata(header)
	for name, values := range Metadata(trailer) {
		md[name] = append(md[name], values...)
	}
	return md
}

// recordingClient is connect's HTTP client for one call. It records why the response could not be
// read to its end, which connect reports as a protocol error or an unknown one.
type recordingClient struct {
	http *http.Client
	why  atomic.Pointer[error]
}

// Do makes the request for connect.
func (r *recordingClient) Do(req *http.Request) (*http.Response, error) {
	res, err := r.http.Do(req) //nolint:gosec // all requests go to the same server
	if err == nil {
		reportResponse(res)
		res.Body = &recordingBody{ReadCloser: res.Body, lose: func(err error) { r.why.Store(&err) }}
	}
	return res, err
}

// lost returns why the response could not be read, nil if it was.
func (r *recordingClient) lost() error {
	if why := r.why.Load(); why != nil {
		return *why
	}
	return nil
}

// recordingBody is a body that reports why it can't be read further.
type recordingBody struct {
	io.ReadCloser

	lose   func(error)
	closed atomic.Bool // connect closes it, and still reads, after a message that is too large
}

func (w *recordingBody) Close() error {
	w.closed.Store(true)
	return w.ReadCloser.Close()
}

func (w *recordingBody) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) && !w.closed.Load() {
		w.lose(err)
	}
	return n, err
}

// client returns connect's client for a call.
func (c *caller) client(over connect.HTTPClient, call *tandem.Call) *connect.Client[message, message] {
	name := "proto"
	if call.Codec == "json" {
		name = "json"
	}
	url := "http://" + httpcalls.Host(c.remote.Endpoint.Address) + pathOf(call.Method)
	return connect.NewClient[message, message](over, url, connect.WithCodec(passing{name}), connect.WithReadMaxBytes(c.remote.MaxMessage))
}

// failed converts the error of a call, which the server sent or which occurred on this side.
// lost is why the response could not be read to its end.
func (c *caller) failed(call *tandem.Call, err error, a *httpcalls.Attempt, lost error) error {
	connErr, ok := errors.AsType[*connect.Error](err)
	switch {
	case !ok:
		return a.Failed(err)
	case !a.Answered():
		e := tandem.AsError(a.Failed(connErr.Unwrap())) // the text of connect's error begins with its code
		if connErr.Code() != connect.CodeUnavailable && connErr.Code() != connect.CodeUnknown && !wasReset(connErr) {
			e.Code = ourCode(connErr)
		}
		return e
	case lost != nil && (wasReset(connErr) || connErr.Code() != connect.CodeCanceled && connErr.Code() != connect.CodeDeadlineExceeded):
		return tandem.Errorf(tandem.Unavailable, "the connection was lost before the end of the answer: %w", lost)
	}
	if md := Metadata(connErr.Meta()); len(md) > 0 {
		call.Trailer = md
	}
	return serverError(connErr)
}

// wasReset reports whether the connection was reset, for which connect has the same code as for a
// call that was canceled.
func wasReset(connErr *connect.Error) bool {
	return connErr.Code() == connect.CodeCanceled && (errors.Is(connErr, syscall.ECONNRESET) || errors.Is(connErr, syscall.EPIPE))
}

// serverError converts an error that the server sent.
func serverError(connErr *connect.Error) *tandem.Error {
	e := &tandem.Error{Code: codeOf(connErr), Message: connErr.Message(), Remote: connect.IsWireError(connErr)}
	readRetryFields(connErr.Meta(), e)
	switch {
	case e.Message == headerTooLarge:
		return &tandem.Error{Code: tandem.ResourceExhausted, Remote: true, NotExecuted: true, Message: "the metadata is larger than the server takes"}
	case !e.Remote:
		e.Code = ourCode(connErr)
	}
	for _, d := range connErr.Details() {
		e.Details = append(e.Details, tandem.Detail{Type: d.Type(), Value: d.Bytes()})
	}
	return e
}

// headerTooLarge is the text of connect's error for a response with the status 431, which an
// HTTP/1 server sends before it reads the request.
var headerTooLarge = fmt.Sprintf("%d %s", http.StatusRequestHeaderFieldsTooLarge, http.StatusText(http.StatusRequestHeaderFieldsTooLarge))

// codeOf returns the code of an error. gRPC servers may send any number; one that is not an
// error code becomes Unknown.
func codeOf(connErr *connect.Error) tandem.Code {
	if code := connErr.Code(); code >= connect.CodeCanceled && code <= connect.CodeUnauthenticated {
		return tandem.Code(code)
	}
	return tandem.Unknown
}

// ourCode returns the code of an error that connect made because it could not understand
// the response. InvalidArgument and Unknown become Internal: the response is wrong, not the
// argument.
func ourCode(connErr *connect.Error) tandem.Code {
	switch code := codeOf(connErr); code {
	case tandem.InvalidArgument, tandem.Unknown:
		return tandem.Internal
	default:
		return code
	}
}

// Ping calls a method that no server has; any response counts as success.
func (c *caller) Ping(ctx context.Context) error {
	return c.ping(ctx, c.HTTP)
}

func (c *caller) ping(ctx context.Context, over *http.Client) error {
	return c.Do(ctx, func(ctx context.Context, a *httpcalls.Attempt) error {
		_, err := c.client(over, &tandem.Call{Method: "rpc.ping"}).CallUnary(ctx, connect.NewRequest(new(message)))
		if a.Answered() {
			return nil
		}
		return a.Failed(err)
	})
}
