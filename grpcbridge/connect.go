package grpcbridge

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// NewHTTPClient returns an HTTP client for the clients that protoc-gen-connect-go has generated: their
// calls are the caller's, which chooses the servers, so the host of their base URL means nothing.
//
//	carts := cartsv1connect.NewCartsClient(grpcbridge.NewHTTPClient(c), "http://tandem")
//
// connect's interceptors and options work as at a server of Connect, in each of its protocols;
// connect.WithProtoJSON is refused. Only methods whose .proto file's code is in the program can be
// called. The caller is that of [NewClient]; opts are options of all calls.
//
// A call passes connect's own code twice, in memory: stubs of protoc-gen-go-grpc are quicker.
func NewHTTPClient(caller tandem.Caller, opts ...tandem.CallOption) connect.HTTPClient {
	return &httpClient{caller: caller, opts: opts}
}

type httpClient struct {
	caller   tandem.Caller
	opts     []tandem.CallOption
	handlers sync.Map // *connect.Handler by the names of linked methods
}

// Do makes the call that a request of Connect describes.
func (c *httpClient) Do(req *http.Request) (*http.Response, error) {
	if c.caller == nil {
		return nil, errNoCaller
	}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(parts) < 2 { //nolint:mnd // service and method
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("grpcbridge: the path "+req.URL.Path+" names no method"))
	}
	service, method := parts[len(parts)-2], parts[len(parts)-1]
	procedure := "/" + service + "/" + method
	h, ok := c.handlers.Load(procedure)
	if !ok {
		d := linkedMethod(service, method)
		if d == nil {
			return nil, connect.NewError(connect.CodeUnimplemented, errors.New("grpcbridge: the program has no generated code of "+procedure[1:]))
		}
		h, _ = c.handlers.LoadOrStore(procedure, c.handler(procedure, d))
	}
	req = req.Clone(req.Context())
	req.URL.Path = procedure
	return memory{handler: h.(*connect.Handler), remote: "tandem"}.Do(req) //nolint:forcetypeassert // only these are stored
}

// handler returns the handler that makes the calls of a method.
func (c *httpClient) handler(procedure string, d protoreflect.MethodDescriptor) *connect.Handler {
	p := &proxy{caller: c.caller, method: methodName(procedure), opts: c.opts}
	opts := []connect.HandlerOption{
		connect.WithCodec(frameCodec{}), connect.WithCodec(noJSON{}), connect.WithCompressMinBytes(math.MaxInt),
	}
	if isSafe(d) {
		opts = append(opts, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	}
	if isIdempotent(d) {
		p.opts = append(slices.Clip(p.opts), client.Idempotent())
	}
	if d.IsStreamingClient() || d.IsStreamingServer() {
		return connect.NewBidiStreamHandler(procedure, p.stream, opts...)
	}
	return connect.NewUnaryHandler(procedure, p.unary, opts...)
}

// frameCodec is connect's codec for messages that stay encoded, and for the status of gRPC's protocol.
type frameCodec struct{}

// Name returns the name of Protocol Buffers in Connect.
func (frameCodec) Name() string { return "proto" }

// Marshal encodes a message.
func (frameCodec) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *frame:
		return v.b, nil
	case proto.Message:
		return proto.Marshal(v)
	}
	return nil, errors.New("not a message")
}

// Unmarshal decodes a message.
func (frameCodec) Unmarshal(b []byte, v any) error {
	switch v := v.(type) {
	case *frame:
		return v.Unmarshal(b)
	case proto.Message:
		return proto.Unmarshal(b, v)
	}
	return errors.New("not a message")
}

// noJSON refuses JSON with an error that says so.
type noJSON struct{}

var errJSON = errors.New("grpcbridge: calls carry Protocol Buffers: leave connect.WithProtoJSON out")

// Name returns the name of JSON in Connect.
func (noJSON) Name() string { return "json" }

// Marshal returns an error.
func (noJSON) Marshal(any) ([]byte, error) { return nil, errJSON }

// Unmarshal returns an error.
func (noJSON) Unmarshal([]byte, any) error { return errJSON }

// proxy makes the calls of one method.
type proxy struct {
	caller tandem.Caller
	method string
	opts   []tandem.CallOption
}

func (p *proxy) options(h http.Header, got *response) []tandem.CallOption {
	return slices.Concat(p.opts, []tandem.CallOption{client.Codec(protoCodec), got.observe, func(call *tandem.Call) {
		md := call.Metadata.Clone()
		if md == nil {
			md = tandem.Metadata{}
		}
		addMetadata(md, metadata.MD(web.Metadata(h)))
		md.Set(bridgeKey, "1")
		call.Metadata = md
	}})
}

func (p *proxy) unary(ctx context.Context, req *connect.Request[frame]) (*connect.Response[frame], error) {
	got := newResponse()
	reply := new(frame)
	err := p.caller.Call(got.watch(ctx), p.method, req.Msg, reply, p.options(req.Header(), got)...)
	header, trailer := got.metadata()
	if err != nil {
		return nil, toConnect(err, header, trailer)
	}
	res := connect.NewResponse(reply)
	addHeader(res.Header(), header)
	addHeader(res.Trailer(), trailer)
	return res, nil
}

func (p *proxy) stream(ctx context.Context, s *connect.BidiStream[frame, frame]) error {
	got := newResponse()
	var made *tandem.Call
	note := func(call *tandem.Call) { made = call }
	out, err := p.caller.OpenStream(got.watch(ctx), p.method, append(p.options(s.RequestHeader(), got), note)...)
	if err != nil {
		return toConnect(err)
	}
	defer func() { _ = out.Close() }()
	go forward(s, out)
	r := &responses{from: out, to: s, got: got, native: made.Peer.Protocol == ownProtocol}
	if err = r.forward(); errors.Is(err, io.EOF) {
		err = nil
	}
	header, trailer := got.metadata()
	r.begin(header)
	addHeader(s.ResponseTrailer(), trailer)
	if err != nil {
		return toConnect(err)
	}
	return nil
}

// forward passes the requests of a stream on. It ends with the request: when the handler has returned,
// its body is closed.
func forward(from *connect.BidiStream[frame, frame], to tandem.MessageStream) {
	for {
		m, err := from.Receive()
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseSend() // how the stream ends, the receiver learns
			return
		case err != nil:
			_ = to.Close()
			return
		}
		if to.SendMsg(m) != nil {
			return
		}
	}
}

// responses passes the responses of a stream on.
type responses struct {
	from   tandem.MessageStream
	to     *connect.BidiStream[frame, frame]
	got    *response
	native bool

	begun bool // the header is complete
}

// begin adds the header of the response, once.
func (r *responses) begin(header metadata.MD) {
	if !r.begun {
		r.begun = true
		addHeader(r.to.ResponseHeader(), header)
	}
}

// forward returns the error that the stream has ended with, io.EOF for none.
func (r *responses) forward() error {
	if !r.native {
		if err := r.sendHTTPHeader(); err != nil {
			return err
		}
	}
	for {
		m := new(frame)
		if err := r.from.RecvMsg(m); err != nil {
			return err
		}
		if r.native && !r.begun && isHeader(m.b) {
			header, err := parseHeader(m.b)
			if err != nil {
				return err
			}
			r.begin(header)
			m = nil
		}
		r.begin(nil)
		if err := r.to.Send(m); err != nil {
			return err
		}
	}
}

// sendHTTPHeader waits for the header of a response over HTTP, and sends it: clients may wait for it
// before they send more. A stream that ends without one has none.
func (r *responses) sendHTTPHeader() error {
	select {
	case <-r.got.came:
	case <-r.from.Context().Done():
	}
	r.got.mu.Lock()
	header := r.got.header
	r.got.mu.Unlock()
	if header == nil {
		return nil
	}
	r.begin(toMD(header))
	return r.to.Send(nil)
}

// toConnect returns an error of a call as connect's, with metadata.
func toConnect(err error, meta ...metadata.MD) *connect.Error {
	e := tandem.AsError(err)
	code := connect.Code(e.Code)
	if e.Code == tandem.OK || !e.Code.Valid() {
		code = connect.CodeUnknown
	}
	out := connect.NewError(code, causeError{e})
	for _, d := range e.Details {
		url := d.Type
		if !strings.Contains(url, "/") {
			url = typePrefix + url
		}
		if detail, err := connect.NewErrorDetail(&anypb.Any{TypeUrl: url, Value: d.Value}); err == nil {
			out.AddDetail(detail)
		}
	}
	for _, md := range meta {
		addHeader(out.Meta(), md)
	}
	return out
}

// causeError is a *tandem.Error whose text is its message, as connect adds the code.
type causeError struct{ err *tandem.Error }

// Error returns the message.
func (c causeError) Error() string { return c.err.Message }

// Unwrap returns the error itself.
func (c causeError) Unwrap() error { return c.err }

// fromConnect returns connect's error as tandem's, and its metadata.
func fromConnect(err error) (*tandem.Error, tandem.Metadata) {
	c, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return tandem.AsError(err), nil
	}
	code := tandem.Code(c.Code()) //nolint:gosec // checked below
	if c.Code() < connect.CodeCanceled || c.Code() > connect.CodeUnauthenticated {
		code = tandem.Unknown
	}
	e := tandem.Errorf(code, "%s", c.Message())
	for _, d := range c.Details() {
		e = e.WithDetail(d.Type(), d.Bytes())
	}
	return e, web.Metadata(c.Meta())
}

// addHeader adds metadata to a header, in base64 where its key says that it is bytes.
func addHeader(h http.Header, md metadata.MD) {
	for key, values := range md {
		for _, v := range values {
			if strings.HasSuffix(key, "-bin") {
				v = connect.EncodeBinaryHeader([]byte(v))
			}
			h.Add(key, v)
		}
	}
}
