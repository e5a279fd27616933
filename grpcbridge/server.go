package grpcbridge

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/grpc"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// ServerOption changes what [Register] does.
type ServerOption func(*serverOptions)

type serverOptions struct {
	unary   []grpc.UnaryServerInterceptor
	streams []grpc.StreamServerInterceptor
	methods map[string][]server.MethodOption
}

// WithUnaryServerInterceptors wraps the unary methods in interceptors of grpc-go; the first is the
// outermost. They run inside tandem's own.
func WithUnaryServerInterceptors(i ...grpc.UnaryServerInterceptor) ServerOption {
	return func(o *serverOptions) { o.unary = append(o.unary, i...) }
}

// WithStreamServerInterceptors wraps the streams in interceptors of grpc-go; the first is the
// outermost. They run inside tandem's own.
func WithStreamServerInterceptors(i ...grpc.StreamServerInterceptor) ServerOption {
	return func(o *serverOptions) { o.streams = append(o.streams, i...) }
}

// WithMethodOptions serves the method of that full name, "shop.v1.Carts.Add", with options of package
// server, such as a timeout or a limit of calls at a time.
func WithMethodOptions(method string, opts ...server.MethodOption) ServerOption {
	return func(o *serverOptions) { o.methods[method] = append(o.methods[method], opts...) }
}

// Register serves the services that register registers, by calling the Register functions that
// protoc-gen-go-grpc has generated. They are checked as by grpc-go, and against the .proto files whose
// code is in the program: the methods, which sides stream, and the types of messages. If a service
// can't be served the error says why, and its methods are not served.
//
// The methods get contexts and streams as at grpc-go's server: package metadata finds the call's
// metadata, package peer its peer, grpc.Method its name, grpc.SetHeader and SetTrailer work, and
// errors with a status keep their code and details. grpc.SendHeader sends the header of a stream at
// once, of a unary call with the response.
func Register(srv *server.Server, register func(grpc.ServiceRegistrar), opts ...ServerOption) error {
	r := &registrar{srv: srv, opts: serverOptions{methods: map[string][]server.MethodOption{}}}
	for _, o := range opts {
		o(&r.opts)
	}
	if slices.ContainsFunc(r.opts.unary, func(i grpc.UnaryServerInterceptor) bool { return i == nil }) ||
		slices.ContainsFunc(r.opts.streams, func(i grpc.StreamServerInterceptor) bool { return i == nil }) {
		return errors.New("grpcbridge: a server interceptor is nil")
	}
	register(r)
	r.done = true
	for name := range r.opts.methods {
		r.errs = append(r.errs, fmt.Errorf("grpcbridge: WithMethodOptions(%q): no method of that name was registered", name))
	}
	return errors.Join(r.errs...)
}

// registrar is the [grpc.ServiceRegistrar] that generated functions get.
type registrar struct {
	srv  *server.Server
	opts serverOptions
	errs []error
	done bool
}

// RegisterService registers the methods of a service. Generated code calls it. An error is kept, as it
// can't be returned.
func (r *registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if r.done {
		panic("grpcbridge: RegisterService after Register has returned: its error would be lost")
	}
	if err := r.service(desc, impl); err != nil {
		r.errs = append(r.errs, fmt.Errorf("grpcbridge: service %s: %w", desc.ServiceName, err))
	}
}

func (r *registrar) service(desc *grpc.ServiceDesc, impl any) error {
	if err := implements(desc, impl); err != nil {
		return err
	}
	if err := checkService(desc); err != nil {
		return err
	}
	var errs []error
	for i := range desc.Methods {
		errs = append(errs, r.unary(desc, &desc.Methods[i], impl))
	}
	for i := range desc.Streams {
		errs = append(errs, r.stream(desc, &desc.Streams[i], impl))
	}
	return errors.Join(errs...)
}

// implements makes grpc-go's check of an implementation.
func implements(desc *grpc.ServiceDesc, impl any) error {
	want := reflect.TypeOf(desc.HandlerType)
	if impl == nil || want == nil || want.Kind() != reflect.Pointer || want.Elem().Kind() != reflect.Interface {
		return nil // legacy code
	}
	if got := reflect.TypeOf(impl); !got.Implements(want.Elem()) {
		return fmt.Errorf("%v does not implement %v", got, want.Elem())
	}
	return nil
}

func (r *registrar) add(m *server.Method, f tandem.Func) error {
	opts := r.opts.methods[m.Name]
	delete(r.opts.methods, m.Name)
	return r.srv.RegisterMethod(m, f, opts...)
}

func (r *registrar) unary(desc *grpc.ServiceDesc, md *grpc.MethodDesc, impl any) error {
	full := "/" + desc.ServiceName + "/" + md.MethodName
	m := &server.Method{Name: methodName(full), Kind: tandem.Unary, Safe: isSafe(linkedMethod(desc.ServiceName, md.MethodName))}
	in, out := methodTypes(desc, md.MethodName)
	if in != nil {
		m.Args = []reflect.Type{in}
	}
	if out != nil {
		m.Results = []reflect.Type{out}
	}
	intercept := chainUnary(r.opts.unary)
	return r.add(m, func(ctx context.Context, call *tandem.Call) error {
		t := newTransport(ctx, call, full)
		var undecoded error
		reply, err := md.Handler(impl, t.context(ctx), func(v any) error {
			undecoded = badRequest(call, call.Body.Decode(v))
			return toStatus(undecoded)
		}, intercept)
		t.finish()
		switch {
		case undecoded != nil:
			return undecoded
		case err != nil:
			return fromStatus(err)
		}
		return call.Body.Encode(reply)
	})
}

// badRequest returns the error of a call whose request does not decode, so that its method does not
// run; nil for nil.
func badRequest(call *tandem.Call, err error) error {
	if err == nil {
		return nil
	}
	e := *tandem.AsError(err)
	if e.Code == tandem.Unknown {
		e.Code = tandem.InvalidArgument
	}
	e.Message, e.NotExecuted = "request of "+call.Method+": "+e.Message, true
	return &e
}

func (r *registrar) stream(desc *grpc.ServiceDesc, sd *grpc.StreamDesc, impl any) error {
	full := "/" + desc.ServiceName + "/" + sd.StreamName
	m := &server.Method{Name: methodName(full), Kind: tandem.Streaming}
	m.In, m.Out = methodTypes(desc, sd.StreamName)
	handler := chainStream(r.opts.streams, &grpc.StreamServerInfo{
		FullMethod: full, IsClientStream: sd.ClientStreams, IsServerStream: sd.ServerStreams,
	}, sd.Handler)
	return r.add(m, func(ctx context.Context, call *tandem.Call) error {
		messages := call.Body.Stream()
		if messages == nil {
			return tandem.Errorf(tandem.Internal, "call of %s has no stream", call.Method)
		}
		t := newTransport(ctx, call, full)
		t.messages = messages
		s := &serverStream{transport: t, ctx: t.context(ctx)}
		err := handler(impl, s)
		t.finish()
		return fromStatus(err)
	})
}

// chainUnary returns interceptors as one; nil for none.
func chainUnary(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if len(all) == 0 {
		return nil
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		for _, i := range slices.Backward(all) {
			next := handler
			handler = func(ctx context.Context, req any) (any, error) { return i(ctx, req, info, next) }
		}
		return handler(ctx, req)
	}
}

// chainStream returns a handler wrapped in interceptors.
func chainStream(all []grpc.StreamServerInterceptor, info *grpc.StreamServerInfo, handler grpc.StreamHandler) grpc.StreamHandler {
	for _, i := range slices.Backward(all) {
		next := handler
		handler = func(impl any, s grpc.ServerStream) error { return i(impl, s, info, next) }
	}
	return handler
}
