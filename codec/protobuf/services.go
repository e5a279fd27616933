package protobuf

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// ServiceMethods returns the names of the methods of the service with that full name, or nil
// if its generated code is not in the program. Servers call it when a service is registered.
func (protobuf) ServiceMethods(service string) []string {
	s := linkedService(service)
	if s == nil {
		return nil
	}
	names := make([]string, s.Methods().Len())
	for i := range names {
		names[i] = string(s.Methods().Get(i).Name())
	}
	return names
}

func linkedService(name string) protoreflect.ServiceDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	s, _ := d.(protoreflect.ServiceDescriptor)
	return s
}

// linkedMethod returns the method of that full name, "shop.v1.Carts.Add", if its
// generated code is in the program.
func linkedMethod(name string) protoreflect.MethodDescriptor {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return nil
	}
	s := linkedService(name[:dot])
	if s == nil {
		return nil
	}
	return s.Methods().ByName(protoreflect.Name(name[dot+1:]))
}

// most bounds how many calls are kept as seen, since callers may name any method.
const most = 4096

// seen are calls whose messages were checked and have the right types.
type seen struct {
	types sync.Map // of call
	size  atomic.Int64
}

type call struct {
	method         string
	sent, received reflect.Type
}

// CheckMessages returns an error if a method is one of a service whose generated code is in
// the program, and takes other messages than those sent, or returns others than those
// received. Clients call it before they send: the bytes of a message don't say its type.
func (c protobuf) CheckMessages(method string, sent, received reflect.Type) error {
	key := call{method, sent, received}
	if _, ok := c.seen.types.Load(key); ok {
		return nil
	}
	if m := linkedMethod(method); m != nil {
		if err := checkType("takes", method, sent, m.Input()); err != nil {
			return err
		}
		if err := checkType("returns", method, received, m.Output()); err != nil {
			return err
		}
	}
	if c.seen.size.Add(1) <= most {
		c.seen.types.Store(key, nil)
	}
	return nil
}

// CheckMethod returns an error if the method of that name belongs to a service whose
// generated code is in the program, and differs from it: in being a stream or not, or in
// the types of its messages. Types that are not messages are left to the codec.
func (protobuf) CheckMethod(name string, streaming bool, in, out []reflect.Type) error {
	m := linkedMethod(name)
	if m == nil {
		return nil
	}
	if streams := m.IsStreamingClient() || m.IsStreamingServer(); streams != streaming {
		return fmt.Errorf("%s is %s in its .proto file, and %s here", name, shapeOf(streams), shapeOf(streaming))
	}
	for _, t := range in {
		if err := checkType("takes", name, t, m.Input()); err != nil {
			return err
		}
	}
	for _, t := range out {
		if err := checkType("returns", name, t, m.Output()); err != nil {
			return err
		}
	}
	return nil
}

func shapeOf(streaming bool) string {
	if streaming {
		return "a stream"
	}
	return "unary"
}

func checkType(does, method string, t reflect.Type, want protoreflect.MessageDescriptor) error {
	if got := fullName(t); got != "" && got != want.FullName() {
		return fmt.Errorf("%s %s the message %s, not %s (%v)", method, does, want.FullName(), got, t)
	}
	return nil
}

// fullName returns the name of a generated type's message, "" for other types.
func fullName(t reflect.Type) (name protoreflect.FullName) {
	if t == nil {
		return ""
	}
	defer func() { // a type made at run time has no descriptor without a value
		if recover() != nil {
			name = ""
		}
	}()
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t)
	}
	m, ok := reflect.TypeAssert[proto.Message](reflect.Zero(t))
	if !ok {
		return ""
	}
	return m.ProtoReflect().Descriptor().FullName()
}
