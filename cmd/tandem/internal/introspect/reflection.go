package introspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/registry"
)

// only is the resolver of a list with one instance.
type only tandem.Instance

// Watch delivers the instance.
func (o only) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	update(registry.Snapshot{Instances: []tandem.Instance{tandem.Instance(o)}, Revision: 1})
	<-ctx.Done()
	return ctx.Err()
}

// The methods of reflection. Both versions have the same messages.
const (
	reflectionV1    = "grpc.reflection.v1.ServerReflection.ServerReflectionInfo"
	reflectionAlpha = "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo"
)

// Reflection returns the methods that a server describes by gRPC's reflection.
func Reflection(ctx context.Context, at tandem.Endpoint, access Access) (methods []Method, err error) {
	err = ask(ctx, at, access, func(a *asker) error {
		methods, err = a.all()
		return err
	})
	return methods, err
}

// Definition returns the definition of a method of a gRPC server, which its reflection has.
func Definition(ctx context.Context, at tandem.Endpoint, access Access, method string) (m protoreflect.MethodDescriptor, err error) {
	service := (&Method{Name: method}).Service()
	err = ask(ctx, at, access, func(a *asker) error {
		if err := a.load(service); err != nil {
			return err
		}
		files, err := a.registry()
		if err != nil {
			return err
		}
		d, err := files.FindDescriptorByName(protoreflect.FullName(method))
		if err != nil {
			return err
		}
		var ok bool
		if m, ok = d.(protoreflect.MethodDescriptor); !ok {
			return fmt.Errorf("%s is no method", method)
		}
		return nil
	})
	return m, err
}

// ask runs f with a stream to a server's reflection.
func ask(ctx context.Context, at tandem.Endpoint, access Access, f func(*asker) error) error {
	at.Protocol = "grpc"
	opts := []client.Option{
		client.WithProtocols(web.GRPC()),
		client.WithResolver("only", only{ID: at.String(), Endpoints: []tandem.Endpoint{at}}),
	}
	if access.TLS != nil {
		config := access.TLS.Clone()
		config.NextProtos = []string{"h2"}
		opts = append(opts, client.WithTLS(config))
	}
	if access.Token != "" {
		opts = append(opts, client.WithPlugins(auth.Token("Bearer", access.Token)))
	}
	c, err := client.Dial("only://server", opts...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // its error changes nothing here
	err = askBy(ctx, c, reflectionV1, f)
	if tandem.CodeOf(err) == tandem.Unimplemented {
		return askBy(ctx, c, reflectionAlpha, f)
	}
	return err
}

// askBy is ask with one version of the reflection.
func askBy(ctx context.Context, c *client.Client, method string, f func(*asker) error) error {
	stream, err := client.Stream[reflection.ServerReflectionRequest, reflection.ServerReflectionResponse](ctx, c, method)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it has answered by then
	return f(&asker{stream, map[string]*descriptorpb.FileDescriptorProto{}})
}

// asker asks one question after the other.
type asker struct {
	stream *tandem.Stream[reflection.ServerReflectionResponse, reflection.ServerReflectionRequest]
	files  map[string]*descriptorpb.FileDescriptorProto
}

// all returns the methods of all services.
func (a *asker) all() ([]Method, error) {
	answer, err := a.ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{ListServices: "*"},
	})
	if err != nil {
		return nil, err
	}
	var services []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		if strings.HasPrefix(s.GetName(), "grpc.reflection.") {
			continue // what is used just now; its own definition is often missing
		}
		services = append(services, s.GetName())
		if err := a.load(s.GetName()); err != nil {
			return nil, fmt.Errorf("service %s: %w", s.GetName(), err)
		}
	}
	return a.methods(services)
}

func (a *asker) ask(q *reflection.ServerReflectionRequest) (*reflection.ServerReflectionResponse, error) {
	if err := a.stream.Send(q); err != nil {
		return nil, err
	}
	answer, err := a.stream.Recv()
	if err != nil {
		return nil, err
	}
	if e := answer.GetErrorResponse(); e != nil {
		return nil, fmt.Errorf("%s", e.GetErrorMessage())
	}
	return answer, nil
}

// load asks for the file that defines a service. Files that it imports come with it.
func (a *asker) load(service string) error {
	answer, err := a.ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	})
	if err != nil {
		return err
	}
	for _, text := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(text, file); err != nil {
			return err
		}
		a.files[file.GetName()] = file
	}
	return nil
}

// registry returns the definitions that have been loaded.
func (a *asker) registry() (*protoregistry.Files, error) {
	set := new(descriptorpb.FileDescriptorSet)
	for _, f := range a.files {
		set.File = append(set.File, f)
	}
	return protodesc.FileOptions{AllowUnresolvable: true}.NewFiles(set)
}

// methods returns the methods of services.
func (a *asker) methods(services []string) ([]Method, error) {
	files, err := a.registry()
	if err != nil {
		return nil, err
	}
	var methods []Method
	in := new(messages)
	for _, name := range services {
		d, err := files.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			return nil, err
		}
		s, ok := d.(protoreflect.ServiceDescriptor)
		if !ok {
			continue
		}
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			methods = append(methods, Method{
				Name: string(m.FullName()), Kind: kind(m),
				Request: in.schema(m.Input(), nil), Response: in.schema(m.Output(), nil),
			})
		}
	}
	return methods, nil
}

func kind(m protoreflect.MethodDescriptor) string {
	switch {
	case m.IsStreamingClient() && m.IsStreamingServer():
		return Bidirectional
	case m.IsStreamingClient():
		return ClientStream
	case m.IsStreamingServer():
		return ServerStream
	}
	return Unary
}

// messages makes the schemas of messages.
type messages struct{ nodes int }

// schema returns the schema of a message's JSON. Where a message contains itself, or the limits
// are reached, only its name remains. open has the messages round it.
func (in *messages) schema(m protoreflect.MessageDescriptor, open []protoreflect.FullName) Schema {
	name := m.FullName()
	if format, known := wellKnown()[name]; known {
		return format
	}
	in.nodes++
	if m.IsPlaceholder() || slices.Contains(open, name) || len(open) >= maxDepth || in.nodes > maxNodes {
		return Schema{"title": string(name)}
	}
	open = append(slices.Clip(open), name)
	properties := map[string]any{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		s := in.field(f, open)
		switch {
		case f.IsMap():
			s = Schema{"type": "object", "additionalProperties": map[string]any(in.field(f.MapValue(), open))}
		case f.IsList():
			s = Schema{"type": "array", "items": map[string]any(s)}
		}
		properties[f.JSONName()] = map[string]any(s)
	}
	return Schema{"type": "object", "title": string(name), "properties": properties}
}

// wellKnown returns the schemas of messages with a JSON form of their own.
func wellKnown() map[protoreflect.FullName]Schema {
	return map[protoreflect.FullName]Schema{
		"google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
		"google.protobuf.Duration":  {"type": "string", "format": "duration"},
		"google.protobuf.FieldMask": {"type": "string"},
		"google.protobuf.Struct":    {"type": "object"},
		"google.protobuf.Value":     {},
		"google.protobuf.Any":       {"type": "object", "title": "google.protobuf.Any"},
	}
}

func (in *messages) field(f protoreflect.FieldDescriptor, open []protoreflect.FullName) Schema {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return in.schema(f.Message(), open)
	case protoreflect.EnumKind:
		var names []any
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return Schema{"type": "string", "enum": names}
	case protoreflect.BoolKind:
		return Schema{"type": "boolean"}
	case protoreflect.StringKind:
		return Schema{"type": "string"}
	case protoreflect.BytesKind:
		return Schema{"type": "string", "format": "byte"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return Schema{"type": "number"}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return Schema{"type": "string", "format": "int64"} // JSON's numbers are not exact beyond 2^53
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return Schema{"type": "string", "format": "uint64"}
	default:
		return Schema{"type": "integer"}
	}
}
