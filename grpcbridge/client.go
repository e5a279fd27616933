package grpcbridge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// ClientOption changes what [NewClient] returns.
type ClientOption func(*ClientConn)

// WithUnaryClientInterceptors wraps unary calls in interceptors of grpc-go; the first is the outermost.
// They run outside tandem's own, once a call. Their *grpc.ClientConn is nil: there is none.
func WithUnaryClientInterceptors(i ...grpc.UnaryClientInterceptor) ClientOption {
	return func(c *ClientConn) { c.unary = append(c.unary, i...) }
}

// WithStreamClientInterceptors wraps streams in interceptors of grpc-go; the first is the outermost.
// They run outside tandem's own, once a stream. Their *grpc.ClientConn is nil: there is none.
func WithStreamClientInterceptors(i ...grpc.StreamClientInterceptor) ClientOption {
	return func(c *ClientConn) { c.streams = append(c.streams, i...) }
}

// WithTransportSecurity says that all connections of the caller are encrypted, as by client.WithTLS:
// grpc.PerRPCCredentials that require it are refused otherwise.
func WithTransportSecurity() ClientOption { return func(c *ClientConn) { c.secure = true } }

// WithDefaultCallOptions gives every call these options, before its own. grpc.WaitForReady and others
// that tandem's client can't honour make each call fail with an error that names them.
func WithDefaultCallOptions(opts ...grpc.CallOption) ClientOption {
	return func(c *ClientConn) { c.defaults = append(c.defaults, opts...) }
}

// ClientConn makes the calls of stubs by a tandem client. It holds no resources: closing the client is
// enough. It is safe for concurrent use.
type ClientConn struct {
	caller   tandem.Caller
	unary    []grpc.UnaryClientInterceptor
	streams  []grpc.StreamClientInterceptor
	defaults []grpc.CallOption
	secure   bool
	wrong    error // of NewClient, which can't return it; calls do

	repeatable sync.Map // bool by method: its .proto file says that it may run twice

	invoker  grpc.UnaryInvoker
	streamer grpc.Streamer
}

var _ grpc.ClientConnInterface = (*ClientConn)(nil)

// NewClient returns a connection for stubs that protoc-gen-go-grpc has generated. The caller is a
// *client.Client of any target, whose servers speak tandem's protocol, gRPC's or Connect's, or
// server.Peer in a handler, for calls to a connected client. It needs the codec of package
// codec/protobuf.
//
// Errors have a status (package status) and are a *[tandem.Error] for errors.As. Options of calls are
// honoured, or make the call fail with an error that names them; tandem's own are passed by
// [CallOptions]. With a nil caller or interceptor all calls fail.
func NewClient(caller tandem.Caller, opts ...ClientOption) *ClientConn {
	c := &ClientConn{caller: caller}
	for _, o := range opts {
		o(c)
	}
	if slices.ContainsFunc(c.unary, func(i grpc.UnaryClientInterceptor) bool { return i == nil }) ||
		slices.ContainsFunc(c.streams, func(i grpc.StreamClientInterceptor) bool { return i == nil }) {
		c.wrong, c.unary, c.streams = errNilInterceptor, nil, nil
	}
	if caller == nil {
		c.wrong = errNoCaller
	}
	c.invoker, c.streamer = c.invoke, c.open
	for _, i := range slices.Backward(c.unary) {
		next := c.invoker
		c.invoker = func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
			return i(ctx, method, req, reply, cc, next, opts...)
		}
	}
	for _, i := range slices.Backward(c.streams) {
		next := c.streamer
		c.streamer = func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return i(ctx, desc, cc, method, next, opts...)
		}
	}
	return c
}

// Invoke makes a unary call. Generated code calls it.
func (c *ClientConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.invoker(ctx, method, args, reply, nil, c.with(opts)...)
}

// NewStream opens a stream. Generated code calls it.
func (c *ClientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.streamer(ctx, desc, nil, method, c.with(opts)...)
}

func (c *ClientConn) with(opts []grpc.CallOption) []grpc.CallOption {
	if len(c.defaults) == 0 {
		return opts
	}
	return append(slices.Clone(c.defaults), opts...)
}

func (c *ClientConn) invoke(ctx context.Context, method string, args, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) (err error) {
	o, err := c.options(ctx, method, opts)
	if err != nil {
		return o.finish(err)
	}
	if err := o.sendable(args); err != nil {
		return o.finish(err)
	}
	got := newResponse()
	into := &incoming{into: reply, most: o.maxReceive}
	err = c.caller.Call(got.watch(ctx), methodName(method), args, into, append(o.call, got.observe)...)
	got.deliver(o)
	if into.tooLarge != nil {
		err = tandem.Errorf(tandem.ResourceExhausted, "%w", into.tooLarge)
	}
	return o.finish(toStatus(err))
}

// isRepeatable reports whether the .proto file of a method says that it may run twice.
func (c *ClientConn) isRepeatable(method string) bool {
	if known, ok := c.repeatable.Load(method); ok {
		return known == true
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	d := linkedMethod(service, name)
	if d == nil { // not kept: callers may name any method
		return false
	}
	c.repeatable.Store(method, isIdempotent(d))
	return isIdempotent(d)
}

// response is what a call learns besides the message.
type response struct {
	mu     sync.Mutex
	header tandem.Metadata // of HTTP's header; nil for tandem's own protocol
	came   chan struct{}   // closed when header has come, or the call has ended
	once   sync.Once

	// Set when the call has ended, or a stream is open.
	peer    *tandem.Peer
	trailer tandem.Metadata
}

func newResponse() *response { return &response{came: make(chan struct{})} }

// watch returns a context for the call whose header is noted when it comes. Of several attempts the
// last one counts.
func (r *response) watch(ctx context.Context) context.Context {
	return web.OnHeader(ctx, func(header tandem.Metadata) {
		r.mu.Lock()
		r.header = header
		r.mu.Unlock()
		r.ended()
	})
}

func (r *response) ended() { r.once.Do(func() { close(r.came) }) }

// observe is an option of the call that notes how it has ended.
func (r *response) observe(call *tandem.Call) {
	call.OnEnd(func(error) {
		r.mu.Lock()
		r.peer, r.trailer = call.Peer, call.Trailer
		r.mu.Unlock()
		r.ended()
	})
}

// metadata returns the header and the trailer of a call that has ended.
func (r *response) metadata() (header, trailer metadata.MD) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.header != nil {
		return split(r.trailer, r.header)
	}
	return unpack(r.trailer)
}

// deliver stores what the call's options ask for.
func (r *response) deliver(o *callOptions) {
	header, trailer := r.metadata()
	for _, to := range o.headers {
		*to = header
	}
	r.deliverEnd(o, trailer)
}

func (r *response) deliverEnd(o *callOptions, trailer metadata.MD) {
	for _, to := range o.trailers {
		*to = trailer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, to := range o.peers {
		*to = *toPeer(r.peer)
	}
}

// CallOptions passes options of package client to a call of a stub: an instance, a route, a fail mode,
// a timeout. On another connection than [ClientConn] it has no effect.
func CallOptions(opts ...tandem.CallOption) grpc.CallOption { return ownOptions{opts: opts} }

type ownOptions struct {
	grpc.EmptyCallOption

	opts []tandem.CallOption
}

var (
	errNoCaller       = errors.New("there is no caller: pass a *client.Client")
	errNilInterceptor = errors.New("a client interceptor is nil")
)

// compressor sets the compressor of a call; "identity" is gRPC's name of none.
func compressor(name string) tandem.CallOption {
	if name == "identity" {
		name = ""
	}
	return client.Compressor(name)
}
