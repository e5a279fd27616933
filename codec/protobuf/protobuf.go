// Package protobuf (stable) has the codec "protobuf": Protocol Buffers
// (https://protobuf.dev).
//
// It encodes every [proto.Message]. Types with methods that vtprotobuf or gogo/protobuf
// generated are encoded by these methods, which are faster than reflection; the package
// needs neither of the two for that.
//
// A client that has the codec uses it for such messages instead of gob, which does not
// carry them; a server needs it to register methods with them:
//
//	srv := server.New(server.WithCodecs(protobuf.Codec()))
//	c, err := client.Dial(target, client.WithCodec(protobuf.Codec()))
//
// # Types
//
// The bytes of a message don't say its type. If the generated code of a service is in the
// program, its methods are known by their full names: a client refuses messages of other
// types before it sends them, a server when the method is registered. For other methods,
// and from clients in other languages, a message of a wrong type may decode, with fields
// that are unknown or mistaken for others.
//
// # What decoding promises
//
// Messages nest at most 100 deep. Memory follows the bytes received, never a
// declared length; an element of a repeated field takes at least two bytes of
// input, one if it is a packed number, and as much memory as its Go type.
package protobuf

import (
	"errors"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/estimate"
	"github.com/tandem-rpc/tandem/internal/estimate/protofields"
)

// maxDepth is how deep messages may nest: as in protobuf's C++ and Java.
const maxDepth = 100

var errType = errors.New("not a protobuf message: want a pointer to a generated type, " +
	"which is a proto.Message or has the methods of vtprotobuf or gogo/protobuf; " +
	"for plain Go types choose another codec, as by client.WithCodec(codec.JSON())")

type protobuf struct {
	generated tandem.Codec
	types     *estimate.Types
	seen      *seen
}

// Codec returns the codec. Decoding resets a message first, as proto.Unmarshal
// does.
func Codec() tandem.Codec {
	return protobuf{codec.Generated(), estimate.ProtoTypes(protofields.Of), new(seen)}
}

func (protobuf) Name() string { return "protobuf" }

func (c protobuf) Append(dst []byte, v any) ([]byte, error) {
	if hasOwnMethods(v) {
		return c.generated.Append(dst, v)
	}
	if m, ok := v.(proto.Message); ok {
		return proto.MarshalOptions{}.MarshalAppend(dst, m)
	}
	return dst, errType
}

func (c protobuf) Decode(src []byte, v any) error {
	if hasOwnMethods(v) {
		return c.generated.Decode(src, v)
	}
	m, ok := v.(proto.Message)
	if !ok {
		return c.decodeNew(src, v)
	}
	if !m.ProtoReflect().IsValid() {
		return errors.New("a nil message; pass the address of one")
	}
	return proto.UnmarshalOptions{RecursionLimit: maxDepth}.Unmarshal(src, m)
}

// DecodeWithin calls memory.Expect for the message before it decodes it.
func (c protobuf) DecodeWithin(src []byte, v any, memory codec.Memory) error {
	if t := reflect.TypeOf(v); t != nil {
		if err := memory.Expect(estimate.Proto(src, c.types.Of(t))); err != nil {
			return err
		}
	}
	return c.Decode(src, v)
}

// decodeNew decodes into a pointer to a pointer, setting it to a new message.
func (c protobuf) decodeNew(src []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() || p.Type().Elem().Kind() != reflect.Pointer {
		return errType
	}
	m := reflect.New(p.Type().Elem().Elem())
	if err := c.Decode(src, m.Interface()); err != nil {
		return err
	}
	p.Elem().Set(m)
	return nil
}

// hasOwnMethods reports whether v has methods that vtprotobuf or gogo/protobuf
// generated. The names of the latter are common, so a type with them must also have
// ProtoMessage.
func hasOwnMethods(v any) bool {
	switch v.(type) {
	case interface {
		MarshalVT() ([]byte, error)
		UnmarshalVT(b []byte) error
	}:
		return true
	case interface {
		ProtoMessage()
		Marshal() ([]byte, error)
		Unmarshal(b []byte) error
	}:
		return true
	}
	return false
}
