package dispatch

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Names of codecs that matter to messages of Protocol Buffers.
const (
	gobCodec   = "gob"
	protoCodec = "protobuf"
)

// isProto reports whether t is a message of Protocol Buffers, by the method that all
// generated types have. Package codec uses the same test.
func isProto(t reflect.Type) bool {
	return t != nil && t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ ProtoMessage() }]())
}

// hasOwnMethods reports whether the codec "generated" carries a message: vtprotobuf's
// and gogo/protobuf's.
func hasOwnMethods(t reflect.Type) bool {
	_, vt := reflect.PointerTo(t).MethodByName("UnmarshalVT")
	_, gogo := reflect.PointerTo(t).MethodByName("Unmarshal")
	return vt || gogo
}

// protoTypes returns the messages of Protocol Buffers among a method's types.
func (m *Method) protoTypes() []reflect.Type {
	all := slices.Concat(m.Args, m.Results, []reflect.Type{m.In, m.Out})
	return slices.DeleteFunc(all, func(t reflect.Type) bool { return !isProto(t) })
}

// protoServices is what a codec of [Config] may know: the services of Protocol Buffers
// whose generated code is in the program.
type protoServices interface {
	// ServiceMethods returns the names of a service's methods, nil if it is not known.
	ServiceMethods(service string) []string
	// CheckMethod returns an error if a method takes or returns other messages than its
	// .proto file says, or is a stream where the file says unary, or the reverse.
	CheckMethod(name string, streaming bool, in, out []reflect.Type) error
}

// linked returns the codec that knows the services in the program, or nil.
func (t *Table) linked() protoServices {
	for _, c := range t.config.Codecs {
		if known, ok := c.(protoServices); ok {
			return known
		}
	}
	return nil
}

// checkService returns an error if a service of Protocol Buffers lacks methods that its
// .proto file has.
func (t *Table) checkService(s *service, methods []*Method) error {
	known := t.linked()
	if known == nil {
		return nil
	}
	lacks := slices.DeleteFunc(known.ServiceMethods(s.name), func(name string) bool {
		full := joinName(s.name, name)
		return t.Lookup(full) != nil || slices.ContainsFunc(methods, func(m *Method) bool { return m.Name == full })
	})
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("dispatch: service %q of %v lacks methods of its .proto file: %s: add them, "+
		"or give SkipUnsuitable() to serve a part", s.name, s.value.Type(), strings.Join(lacks, ", "))
}

// forGRPC returns an error if the service is written for grpc-go.
func (s *service) forGRPC() error {
	why := ""
	if base := deref(s.value.Type()); base.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(base) {
			if f.Anonymous && strings.HasSuffix(f.Name, "Server") && (strings.HasPrefix(f.Name, "Unimplemented") || strings.HasPrefix(f.Name, "Unsafe")) {
				why = "it embeds " + f.Name + ", whose methods would be served: remove it,"
			}
		}
	}
	for goName := range s.refused {
		for p := range s.value.MethodByName(goName).Type().Ins() {
			if isGRPCStream(p) {
				why = "its streams take a " + p.String() + ": take a *tandem.Stream[In, Out],"
			}
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("dispatch: service %q of %v is written for grpc-go: %s see docs/howto/migrating/grpc.md", s.name, s.value.Type(), why)
}

// isGRPCStream reports whether t is the stream parameter of a method written for grpc-go.
func isGRPCStream(t reflect.Type) bool {
	if t.Kind() != reflect.Interface {
		return false
	}
	for _, name := range []string{"Context", "RecvMsg", "SendMsg", "SetTrailer"} {
		if _, ok := t.MethodByName(name); !ok {
			return false
		}
	}
	return true
}

// checkProto returns an error if a method has messages of Protocol Buffers, and no codec
// of the table's carries them.
func (t *Table) checkProto(m *Method) error {
	if known := t.linked(); known != nil {
		in, out := append(slices.Clone(m.Args), m.In), append(slices.Clone(m.Results), m.Out)
		if err := known.CheckMethod(m.Name, m.Kind == tandem.Streaming, in, out); err != nil {
			return fmt.Errorf("dispatch: %v: %w", m, err)
		}
	}
	if t.config.Codecs == nil || slices.ContainsFunc(t.config.Codecs, func(c tandem.Codec) bool { return c.Name() == protoCodec }) {
		return nil
	}
	for _, typ := range m.protoTypes() {
		if !hasOwnMethods(typ) {
			return fmt.Errorf("dispatch: %v takes or returns *%v, and no codec here carries messages of Protocol Buffers: "+
				"give protobuf.Codec() of package codec/protobuf to WithCodecs", m, typ)
		}
	}
	return nil
}

// notInGob returns the error of a call in gob of a method with messages of Protocol Buffers.
func notInGob(name string) error {
	return notExecuted(tandem.Errorf(tandem.Unimplemented, "%s has messages of Protocol Buffers, which gob does not carry: "+
		"give protobuf.Codec() of package codec/protobuf to client.WithCodec", name))
}
