package grpcbridge

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// linkedService returns the descriptor of a service whose generated code is in the program, or nil.
func linkedService(name string) protoreflect.ServiceDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	s, _ := d.(protoreflect.ServiceDescriptor)
	return s
}

// linkedMethod returns the descriptor of a method, nil if its generated code is not in the program.
func linkedMethod(service, method string) protoreflect.MethodDescriptor {
	s := linkedService(service)
	if s == nil {
		return nil
	}
	return s.Methods().ByName(protoreflect.Name(method))
}

// isSafe reports whether the .proto file says that a method has no side effects.
func isSafe(d protoreflect.MethodDescriptor) bool {
	return levelOf(d) == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// isIdempotent reports whether the .proto file says that a method may run twice.
func isIdempotent(d protoreflect.MethodDescriptor) bool {
	return levelOf(d) != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}

func levelOf(d protoreflect.MethodDescriptor) descriptorpb.MethodOptions_IdempotencyLevel {
	if d == nil {
		return descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
	}
	o, _ := d.Options().(*descriptorpb.MethodOptions)
	return o.GetIdempotencyLevel()
}

// goType returns the generated Go type of a message, nil if it is not in the program.
func goType(d protoreflect.MessageDescriptor) reflect.Type {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil
	}
	return reflect.TypeOf(t.Zero().Interface()).Elem()
}

// checkService returns an error if a service differs from its .proto file in which methods it has
// and in which sides of them stream. The types of messages are checked by the server.
func checkService(desc *grpc.ServiceDesc) error {
	linked := linkedService(desc.ServiceName)
	if linked == nil {
		return nil // another codec, or code that was written by hand
	}
	var errs []error
	here := map[string]grpc.StreamDesc{}
	for _, m := range desc.Methods {
		here[m.MethodName] = grpc.StreamDesc{}
	}
	for _, s := range desc.Streams {
		here[s.StreamName] = s
	}
	for i := range linked.Methods().Len() {
		m := linked.Methods().Get(i)
		s, ok := here[string(m.Name())]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("its .proto file has the method %s, and its generated code has not: generate it again", m.Name()))
		case s.ClientStreams != m.IsStreamingClient() || s.ServerStreams != m.IsStreamingServer():
			errs = append(errs, fmt.Errorf("%s is %s in its .proto file, and %s in its generated code: generate it again", m.Name(),
				shape(m.IsStreamingClient(), m.IsStreamingServer()), shape(s.ClientStreams, s.ServerStreams)))
		}
		delete(here, string(m.Name()))
	}
	for name := range here {
		errs = append(errs, fmt.Errorf("its generated code has the method %s, and its .proto file has not: generate it again", name))
	}
	return errors.Join(errs...)
}

func shape(client, server bool) string {
	switch {
	case client && server:
		return "a stream both ways"
	case client:
		return "a stream of requests"
	case server:
		return "a stream of responses"
	}
	return "unary"
}

// methodTypes returns the Go types of a method's messages, without pointers: from the interface
// that implementations have, else from the .proto file, else nil.
func methodTypes(desc *grpc.ServiceDesc, name string) (in, out reflect.Type) {
	if in, out = declaredTypes(desc.HandlerType, name); in != nil && out != nil {
		return in, out
	}
	if m := linkedMethod(desc.ServiceName, name); m != nil {
		return goType(m.Input()), goType(m.Output())
	}
	return nil, nil
}

// declaredTypes returns the types in the signature of a method of a server's interface, which is
// one of
//
//	Method(context.Context, *In) (*Out, error)
//	Method(*In, Stream) error
//	Method(Stream) error
//
// where Stream has methods such as Recv() (*In, error) and Send(*Out) error.
func declaredTypes(handler any, name string) (in, out reflect.Type) {
	t := reflect.TypeOf(handler)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Interface {
		return nil, nil
	}
	m, ok := t.Elem().MethodByName(name)
	if !ok {
		return nil, nil
	}
	for p := range m.Type.Ins() {
		switch {
		case isMessage(p):
			in = p.Elem()
		case p.Kind() == reflect.Interface && p != reflect.TypeFor[context.Context]():
			received, sent := streamTypes(p)
			if in == nil {
				in = received
			}
			out = sent
		}
	}
	if m.Type.NumOut() == 2 && isMessage(m.Type.Out(0)) { //nolint:mnd // the response and an error
		out = m.Type.Out(0).Elem()
	}
	return in, out
}

func streamTypes(stream reflect.Type) (received, sent reflect.Type) {
	if m, ok := stream.MethodByName("Recv"); ok && m.Type.NumOut() == 2 && isMessage(m.Type.Out(0)) {
		received = m.Type.Out(0).Elem()
	}
	for _, name := range []string{"Send", "SendAndClose"} {
		if m, ok := stream.MethodByName(name); ok && m.Type.NumIn() == 1 && isMessage(m.Type.In(0)) {
			sent = m.Type.In(0).Elem()
		}
	}
	return received, sent
}

func isMessage(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Implements(reflect.TypeFor[proto.Message]())
}
