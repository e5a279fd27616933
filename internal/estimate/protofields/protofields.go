// Package protofields lists the fields of messages of Protocol Buffers for package estimate:
// the Go types of messages do not show fields in a oneof, and in the opaque API they show none.
package protofields

import (
	"reflect"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Of calls add for each field of a message, with its Go type, its number, its name, and its
// name in JSON. It reports whether rt, a struct, is a message.
func Of(rt reflect.Type, add func(t reflect.Type, names ...string)) bool {
	m, ok := reflect.TypeAssert[proto.Message](reflect.New(rt))
	if !ok {
		return false
	}
	r := m.ProtoReflect()
	message := r.Descriptor()
	if message == nil { // a dynamic message, whose Go type does not show its fields
		return true
	}
	for i := range message.Fields().Len() {
		fd := message.Fields().Get(i)
		add(typeOf(r, fd), strconv.Itoa(int(fd.Number())), string(fd.Name()), fd.JSONName())
	}
	return true
}

// typeOf returns a Go type that takes as much memory as the field.
func typeOf(r protoreflect.Message, fd protoreflect.FieldDescriptor) reflect.Type {
	switch {
	case fd.IsMap():
		value := scalar(fd.MapValue().Kind())
		if fd.MapValue().Message() != nil {
			value = reflect.TypeOf(r.NewField(fd).Map().NewValue().Message().Interface())
		}
		return reflect.MapOf(scalar(fd.MapKey().Kind()), value)
	case fd.IsList() && fd.Message() != nil:
		return reflect.SliceOf(reflect.TypeOf(r.NewField(fd).List().NewElement().Message().Interface()))
	case fd.IsList():
		return reflect.SliceOf(scalar(fd.Kind()))
	case fd.Message() != nil:
		return reflect.TypeOf(r.NewField(fd).Message().Interface())
	case fd.HasPresence():
		return reflect.PointerTo(scalar(fd.Kind()))
	}
	return scalar(fd.Kind())
}

func scalar(k protoreflect.Kind) reflect.Type {
	switch k {
	case protoreflect.StringKind:
		return reflect.TypeFor[string]()
	case protoreflect.BytesKind:
		return reflect.TypeFor[[]byte]()
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return reflect.TypeFor[float64]()
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return reflect.TypeFor[float32]()
	case protoreflect.BoolKind:
		return reflect.TypeFor[bool]()
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
		return reflect.TypeFor[int32]()
	}
	return reflect.TypeFor[int64]()
}
