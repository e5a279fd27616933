package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
	"github.com/tandem-rpc/tandem/transport"
)

// GRPC returns the protocol for [client.WithProtocols] by which clients call servers of
// gRPC, at targets grpc://host:port: over HTTP/2, which begins with its preface. With
// TLS the client's configuration must offer "h2", as these servers want to be asked.
//
// The last dot of a method's name is the slash of its path: "shop.v1.Carts.Add" is
// /shop.v1.Carts/Add. A method is called with one argument and has one result. Messages
// are of Protocol Buffers, unless the client or the call names JSON, which is that of
// encoding/json. Metadata crosses both ways, header and trailer of the answer as one;
// so do the deadline, codes, and the details of errors. gRPC has no one-way calls: they
// wait for the answer.
//
// Streams of all kinds are carried, over connections of their own, so that who receives
// slowly holds up no other call. A stream is open when its request is sent: what the
// server has against it is what Recv returns.
func GRPC() client.Protocol { return newCalling("grpc", true, connect.WithGRPC()) }

// Connect is [GRPC] for servers of Connect, at targets connect://host:port, over
// HTTP/1.1; over HTTP/2 if the client's TLS configuration offers "h2" and the server
// takes it. Streams are over HTTP/2 also without TLS if the server speaks it, which the
// first one finds out. Else they are over HTTP/1.1, one a connection, and many servers
// then have none that go both ways.
func Connect() client.Protocol { return newCalling("connect", false) }

// calling is a protocol as clients use it.
type calling struct {
	name   string
	http2  bool
	opts   []connect.ClientOption
	codecs []tandem.Codec
}

func newCalling(name string, http2 bool, opts ...connect.ClientOption) *calling {
	return &calling{name, http2, opts, []tandem.Codec{protobuf.Codec(), codec.JSON()}}
}

func (c *calling) Name() string { return c.name }

// Codecs returns Protocol Buffers and JSON.
func (c *calling) Codecs() []tandem.Codec { return c.codecs }

// Connect connects to a server.
func (c *calling) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	first, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	agreed := ""
	if state := transport.TLSState(first); state != nil {
		agreed = state.NegotiatedProtocol
	}
	http2 := c.http2 || agreed == "h2"
	s := httpcalls.New(first, r.Dial, http2)
	return &caller{Server: s, calling: c, remote: r, streams: newVersion(http2, agreed != "")}, nil
}

// caller makes calls at one server.
type caller struct {
	*httpcalls.Server
	*calling

	remote  *client.Remote
	streams *version
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
	req := connect.NewRequest(&message{argument})
	addMetadata(req.Header(), r.Call.Metadata)
	httpcalls.Strip(req.Header())
	return c.Do(ctx, func(ctx context.Context, a *httpcalls.Attempt) error {
		over := &reading{http: c.HTTP}
		resp, err := c.client(over, r.Call).CallUnary(ctx, req)
		if err != nil {
			return c.failed(r.Call, err, a, over.lost())
		}
		r.Reply = resp.Msg.b
		r.Call.Trailer = metadataOf(resp.Header(), resp.Trailer())
		return nil
	})
}

// metadataOf returns an answer's header and trailer as one.
func metadataOf(header, trailer http.Header) tandem.Metadata {
	md := Metadata(header)
	for name, values := range Metadata(trailer) {
		md[name] = append(md[name], values...)
	}
	return md
}

// reading is connect's HTTP client of one call. It notes that the answer could not be read
// to its end, which connect takes for a protocol error, or an unknown one.
type reading struct {
	http *http.Client
	why  atomic.Pointer[error]
}

// Do makes the request for connect.
func (r *reading) Do(req *http.Request) (*http.Response, error) {
	res, err := r.http.Do(req) //nolint:gosec // all requests go to the one server
	if err == nil {
		res.Body = &watched{res.Body, func(err error) { r.why.Store(&err) }}
	}
	return res, err
}

// lost returns why the answer could not be read, nil if it could.
func (r *reading) lost() error {
	if why := r.why.Load(); why != nil && !errors.As(*why, new(resetError)) {
		return *why
	}
	return nil
}

// watched is a body that says why it can't be read any further.
type watched struct {
	io.ReadCloser

	lose func(error)
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
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
	opts := append([]connect.ClientOption{connect.WithCodec(passing{name}), connect.WithReadMaxBytes(c.remote.MaxMessage)}, c.opts...)
	url := "http://" + httpcalls.Host(c.remote.Endpoint.Address) + pathOf(call.Method)
	return connect.NewClient[message, message](over, url, opts...)
}

// failed is the error of a call: as the server said it, or of this side. lost is why the
// answer could not be read to its end.
func (c *caller) failed(call *tandem.Call, err error, a *httpcalls.Attempt, lost error) error {
	said, ok := errors.AsType[*connect.Error](err)
	switch {
	case !ok:
		return a.Failed(err)
	case !a.Answered():
		e := tandem.AsError(a.Failed(said.Unwrap())) // its own text begins with its code
		if said.Code() != connect.CodeUnavailable && said.Code() != connect.CodeUnknown {
			e.Code = ourCode(said)
		}
		return e
	case lost != nil && said.Code() != connect.CodeCanceled && said.Code() != connect.CodeDeadlineExceeded:
		return tandem.Errorf(tandem.Unavailable, "the connection was lost before the end of the answer: %w", lost)
	}
	if md := Metadata(said.Meta()); len(md) > 0 {
		call.Trailer = md
	}
	return theirs(said)
}

// theirs is an error as the server said it.
func theirs(said *connect.Error) *tandem.Error {
	e := &tandem.Error{Code: codeOf(said), Message: said.Message(), Remote: connect.IsWireError(said)}
	heed(said.Meta(), e)
	if !e.Remote {
		e.Code = ourCode(said)
	}
	for _, d := range said.Details() {
		e.Details = append(e.Details, tandem.Detail{Type: d.Type(), Value: d.Bytes()})
	}
	return e
}

// codeOf is the code of an error. gRPC's servers send any number: one that is none, or
// says that nothing has failed, is Unknown.
func codeOf(said *connect.Error) tandem.Code {
	if code := said.Code(); code >= connect.CodeCanceled && code <= connect.CodeUnauthenticated {
		return tandem.Code(code)
	}
	return tandem.Unknown
}

// ourCode is the code of an error that connect has made of what it could not understand:
// what is wrong is the answer, not the argument.
func ourCode(said *connect.Error) tandem.Code {
	switch code := codeOf(said); code {
	case tandem.InvalidArgument, tandem.Unknown:
		return tandem.Internal
	default:
		return code
	}
}

// Ping calls a method that no server has; any answer is one.
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
