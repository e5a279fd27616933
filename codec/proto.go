package codec

import (
	"fmt"
	"reflect"

	"github.com/tandem-rpc/tandem"
)

// protoMessage has the method that all generated types of Protocol Buffers have, whichever
// generator made them. This package does not import their runtime.
type protoMessage interface{ ProtoMessage() }

// IsProto reports whether v is a message of Protocol Buffers: a pointer to a generated
// type, or [tandem.Args] with one among them. A nil pointer counts.
func IsProto(v any) bool {
	list, several := v.(tandem.Args)
	if !several {
		_, ok := v.(protoMessage)
		return ok
	}
	for _, one := range list {
		if _, ok := one.(protoMessage); ok {
			return true
		}
	}
	return false
}

// noProto returns the error of gob for values of type t with a message of Protocol
// Buffers inside, and nil for other types. Gob would leave out fields that are present
// and zero, and fail for a oneof.
func noProto(t reflect.Type) error {
	found := protoInside(t, make(map[reflect.Type]bool))
	if found == nil {
		return nil
	}
	return fmt.Errorf("gob does not carry messages of Protocol Buffers (%v): "+
		"give protobuf.Codec() of package codec/protobuf to client.WithCodec, and to server.WithCodecs; "+
		"net/rpc carries gob only, so call such methods over another protocol", found)
}

// protoInside returns the type of a message of Protocol Buffers that gob finds in
// values of type t, or nil. It does not look into interfaces.
func protoInside(t reflect.Type, seen map[reflect.Type]bool) reflect.Type {
	if t == nil || seen[t] {
		return nil
	}
	seen[t] = true
	if t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(reflect.TypeFor[protoMessage]()) {
		return t
	}
	if encodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Map:
		if found := protoInside(t.Key(), seen); found != nil {
			return found
		}
		return protoInside(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return protoInside(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() {
				continue
			}
			if found := protoInside(f.Type, seen); found != nil {
				return found
			}
		}
	}
	return nil
}
