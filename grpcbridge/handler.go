package grpcbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// RegisterHandler serves the service of a handler that protoc-gen-connect-go has generated: its methods
// are the server's, so clients of all protocols of the port reach them, and they pass its plugins and
// limits.
//
//	path, handler := cartsv1connect.NewCartsHandler(impl)
//	err := grpcbridge.RegisterHandler(srv, path, handler)
//
// connect's interceptors and options of the handler work. opts are options of all methods.
//
// A call passes connect's own code in memory, so services of package server and of [Register] are
// quicker.
func RegisterHandler(srv *server.Server, path string, handler http.Handler, opts ...server.MethodOption) error {
	name := strings.Trim(path, "/")
	if handler == nil {
		return fmt.Errorf("grpcbridge: service %s: the handler is nil", name)
	}
	service := linkedService(name)
	if service == nil {
		return fmt.Errorf("grpcbridge: the program has no generated code of a service %q: pass the path and the handler that the generated New…Handler returns", name)
	}
	var errs []error
	for i := range service.Methods().Len() {
		errs = append(errs, registerHandled(srv, handler, service.Methods().Get(i), opts))
	}
	return errors.Join(errs...)
}

func registerHandled(srv *server.Server, handler http.Handler, d protoreflect.MethodDescriptor, opts []server.MethodOption) error {
	full := "/" + string(d.Parent().FullName()) + "/" + string(d.Name())
	in, out := goType(d.Input()), goType(d.Output())
	if in == nil || out == nil {
		return fmt.Errorf("grpcbridge: %s: the program has no generated code of its messages", full[1:])
	}
	h := &handled{handler: handler, full: full, in: in, out: out}
	m := &server.Method{Name: methodName(full), Safe: isSafe(d)}
	if d.IsStreamingClient() || d.IsStreamingServer() {
		m.Kind, m.In, m.Out = tandem.Streaming, in, out
		return srv.RegisterMethod(m, h.stream, opts...)
	}
	m.Args, m.Results = []reflect.Type{in}, []reflect.Type{out}
	return srv.RegisterMethod(m, h.unary, opts...)
}

// handled is a method that a handler of connect serves.
type handled struct {
	handler http.Handler
	full    string
	in, out reflect.Type
}

// client returns a client of the handler, for one call.
func (h *handled) client(call *tandem.Call, p *panicking) *connect.Client[frame, frame] {
	m := memory{handler: h.handler, panicked: p.keep}
	if call.Peer.Addr != nil {
		m.remote = call.Peer.Addr.String()
	}
	return connect.NewClient[frame, frame](m, "http://tandem"+h.full,
		connect.WithCodec(frameCodec{}), connect.WithAcceptCompression("gzip", nil, nil))
}

// panicking carries a panic of a handler from its goroutine to that of the call, where the server
// treats it as that of any method: a line in its log, and Internal for the caller.
type panicking struct{ what atomic.Pointer[string] }

func (p *panicking) keep(v any, stack []byte) {
	if v != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
		text := fmt.Sprintf("%v\n\nin the handler's goroutine:\n%s", v, stack)
		p.what.Store(&text)
	}
}

// passOn panics if the handler has.
func (p *panicking) passOn() {
	if what := p.what.Load(); what != nil {
		panic(*what)
	}
}

func (h *handled) unary(ctx context.Context, call *tandem.Call) error {
	args, err := h.decode(call.Body.Decode)
	if err != nil {
		return badRequest(call, err)
	}
	req := connect.NewRequest(args)
	addHeader(req.Header(), toMD(call.Metadata))
	t := newTransport(ctx, call, h.full)
	defer t.finish()
	var p panicking
	res, err := h.client(call, &p).CallUnary(ctx, req)
	p.passOn()
	if err != nil {
		e, meta := fromConnect(err)
		_ = t.SetTrailer(metadata.MD(meta))
		return e
	}
	t.receive(res.Header(), res.Trailer())
	return h.encode(res.Msg, call.Body.Encode)
}

// receive takes the header and the trailer of the handler's response.
func (t *transport) receive(header, trailer http.Header) {
	_ = t.SetHeader(metadata.MD(web.Metadata(header))) // fails after it was sent
	_ = t.SetTrailer(metadata.MD(web.Metadata(trailer)))
}

func (h *handled) stream(ctx context.Context, call *tandem.Call) error {
	messages := call.Body.Stream()
	if messages == nil {
		return tandem.Errorf(tandem.Internal, "call of %s has no stream", call.Method)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := newTransport(ctx, call, h.full)
	t.messages = messages
	defer t.finish()
	var p panicking
	conn := h.client(call, &p).CallBidiStream(ctx)
	addHeader(conn.RequestHeader(), toMD(call.Metadata))
	if err := conn.Send(nil); err != nil && !errors.Is(err, io.EOF) { // the header alone
		e, _ := fromConnect(err)
		return e
	}
	go h.forward(messages, conn, cancel)
	err := h.receive(t, conn)
	_ = conn.CloseResponse()
	p.passOn()
	return err
}

// forward passes the requests of a stream to the handler. It ends with the stream, which ends when the
// method has returned.
func (h *handled) forward(from tandem.MessageStream, to *connect.BidiStreamForClient[frame, frame], cancel func()) {
	for {
		m, err := h.decode(from.RecvMsg)
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseRequest()
			return
		case err != nil:
			cancel()
			return
		}
		if to.Send(m) != nil {
			return // receive learns why
		}
	}
}

func (h *handled) receive(t *transport, from *connect.BidiStreamForClient[frame, frame]) error {
	for first := true; ; first = false {
		if first { // waits for it
			_ = t.SetHeader(metadata.MD(web.Metadata(from.ResponseHeader())))
			if err := t.sendHeader(); err != nil {
				return fromStatus(err)
			}
		}
		m, err := from.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return t.SetTrailer(metadata.MD(web.Metadata(from.ResponseTrailer())))
		case err != nil:
			e, meta := fromConnect(err)
			_ = t.SetTrailer(metadata.MD(meta))
			return e
		}
		if err := h.encode(m, t.messages.SendMsg); err != nil {
			return err
		}
	}
}

// decode returns a message of a call, encoded as Protocol Buffers: the call may be in JSON.
func (h *handled) decode(decode func(any) error) (*frame, error) {
	m, ok := reflect.TypeAssert[proto.Message](reflect.New(h.in))
	if !ok {
		return nil, fmt.Errorf("%v is no message", h.in)
	}
	if err := decode(m); err != nil {
		return nil, err
	}
	b, err := proto.Marshal(m)
	return &frame{b}, err
}

// encode passes a message of the handler on in the codec of the call.
func (h *handled) encode(f *frame, encode func(any) error) error {
	m, ok := reflect.TypeAssert[proto.Message](reflect.New(h.out))
	if !ok {
		return fmt.Errorf("%v is no message", h.out)
	}
	if err := proto.Unmarshal(f.b, m); err != nil {
		return err
	}
	return encode(m)
}
