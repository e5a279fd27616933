package dispatch

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/tandem-rpc/tandem"
)

// Names of codecs that matter to messages of Protocol Buffers.
const (
	gobCodec   = "gob"
	protoCodec = "protobuf"
)

// isProto reports whether t is a message of Protocol Buffers, by the method that all
// generated types have. Package codec decides alike.
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

// checkProto returns an error if a method has messages of Protocol Buffers, and no codec
// of the table's carries them.
func (t *Table) checkProto(m *Method) error {
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

// notInGob returns f for calls in codecs that carry messages of Protocol Buffers: one in
// gob is refused before the method runs.
func notInGob(name string, f tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if call.Codec == gobCodec {
			return notExecuted(tandem.Errorf(tandem.Unimplemented, "%s has messages of Protocol Buffers, which gob does not carry: "+
				"give protobuf.Codec() of package codec/protobuf to client.WithCodec", name))
		}
		return f(ctx, call)
	}
}
