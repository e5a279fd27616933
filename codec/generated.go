package codec

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/estimate"
)

// The shapes of generated methods, by generator.
type (
	vtSized interface { // vtprotobuf
		SizeVT() int
		MarshalToSizedBufferVT(b []byte) (int, error)
	}
	vtMarshaler   interface{ MarshalVT() ([]byte, error) }
	vtUnmarshaler interface{ UnmarshalVT(b []byte) error }

	gogoSized interface { // gogo/protobuf
		Size() int
		MarshalToSizedBuffer(b []byte) (int, error)
	}
	gogoMarshalTo interface {
		Size() int
		MarshalTo(b []byte) (int, error)
	}
	marshaler   interface{ Marshal() ([]byte, error) }
	unmarshaler interface{ Unmarshal(b []byte) error }

	gencodeMarshaler interface { // gencode
		Size() uint64
		Marshal(b []byte) ([]byte, error)
	}
	gencodeUnmarshaler interface {
		Unmarshal(b []byte) (uint64, error)
	}

	marshalAppender interface {
		MarshalAppend(dst []byte) ([]byte, error)
	}
)

const (
	wantMarshal = "no marshalling methods of its own: want MarshalVT, Marshal and Size " +
		"(gogo, gencode), MarshalAppend, AppendBinary or MarshalBinary"
	wantUnmarshal = "no unmarshalling method of its own: want UnmarshalVT, Unmarshal or UnmarshalBinary"
)

type generated struct{ types *estimate.Types }

// Generated returns the codec "generated": a type encodes itself by methods, which are
// generated or written by hand. They are found by their signatures, and the first of
// these that the type has is used:
//
//	vtprotobuf  SizeVT() int, MarshalToSizedBufferVT([]byte) (int, error)
//	            MarshalVT() ([]byte, error), UnmarshalVT([]byte) error
//	any         MarshalAppend([]byte) ([]byte, error)
//	gogo        Size() int, MarshalToSizedBuffer or MarshalTo([]byte) (int, error)
//	            Marshal() ([]byte, error), Unmarshal([]byte) error
//	gencode     Size() uint64, Marshal([]byte) ([]byte, error)
//	            Unmarshal([]byte) (uint64, error)
//	encoding    AppendBinary, MarshalBinary, UnmarshalBinary
//
// All but those that return a new slice write into the message itself, without a
// copy. Unmarshalling methods must not keep the bytes that they get.
//
// The methods must bound memory and depth themselves; gencode's do not, as they
// allocate what a message declares. Only messages of protobuf types, which have
// UnmarshalVT or ProtoMessage, are refused if they nest deeper than 100; the types are
// reset before they are decoded into, as proto.Unmarshal does.
func Generated() tandem.Codec { return &generated{estimate.ProtoTypes(nil)} }

func (*generated) Name() string { return "generated" }

func (g *generated) Append(dst []byte, v any) (out []byte, err error) {
	defer guard(v, &err)
	if m, ok := v.(vtSized); ok {
		out, room := grow(dst, m.SizeVT())
		n, err := m.MarshalToSizedBufferVT(room)
		return out, filled(room, n, err)
	}
	return g.append(dst, v)
}

func (g *generated) append(dst []byte, v any) ([]byte, error) {
	switch m := v.(type) {
	case vtMarshaler:
		return join(dst, m.MarshalVT)
	case marshalAppender:
		return m.MarshalAppend(dst)
	case gogoSized:
		out, room := grow(dst, m.Size())
		n, err := m.MarshalToSizedBuffer(room)
		return out, filled(room, n, err)
	case gogoMarshalTo:
		out, room := grow(dst, m.Size())
		n, err := m.MarshalTo(room)
		return out, filled(room, n, err)
	case marshaler:
		return join(dst, m.Marshal)
	case gencodeMarshaler:
		return appendGencode(dst, m)
	case encoding.BinaryAppender:
		return m.AppendBinary(dst)
	case encoding.BinaryMarshaler:
		return join(dst, m.MarshalBinary)
	}
	return g.appendCopy(dst, v)
}

// appendCopy encodes a value whose pointer has the methods.
func (g *generated) appendCopy(dst []byte, v any) ([]byte, error) {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		return dst, errors.New(wantMarshal)
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return g.Append(dst, p.Interface())
}

// grow appends size bytes to dst; room is the slice of them.
func grow(dst []byte, size int) (out, room []byte) {
	out = slices.Grow(dst, size)[:len(dst)+size]
	return out, out[len(dst):len(out):len(out)]
}

// filled returns an error unless n, the number of bytes written, is the length of room.
func filled(room []byte, n int, err error) error {
	if err == nil && n != len(room) {
		err = fmt.Errorf("its size is given as %d bytes, but %d were written", len(room), n)
	}
	return err
}

// join appends what marshal returns to dst.
func join(dst []byte, marshal func() ([]byte, error)) ([]byte, error) {
	b, err := marshal()
	return append(dst, b...), err
}

// appendGencode relies on what gencode's Marshal does: it writes to the start
// of the buffer if that has the capacity, else to a new one.
func appendGencode(dst []byte, m gencodeMarshaler) ([]byte, error) {
	size := int(m.Size()) //nolint:gosec // a message that fits in memory
	out := slices.Grow(dst, size)
	room := out[len(dst) : len(dst)+size]
	b, err := m.Marshal(room[:0:len(room)])
	if err != nil || len(b) == 0 {
		return dst, err
	}
	if len(b) <= len(room) && &b[0] == &room[0] {
		return out[:len(dst)+len(b)], nil
	}
	return append(dst, b...), nil
}

func (g *generated) Decode(src []byte, v any) (err error) {
	defer guard(v, &err)
	if m, ok := v.(vtUnmarshaler); ok {
		if err := g.prepare(src, m); err != nil {
			return err
		}
		return m.UnmarshalVT(src)
	}
	return g.decode(src, v)
}

// DecodeWithin calls memory.Expect for a message of Protocol Buffers before it decodes it. The
// memory of other types is not known.
func (g *generated) DecodeWithin(src []byte, v any, memory Memory) error {
	if t := reflect.TypeOf(v); t != nil {
		if err := memory.Expect(estimate.Proto(src, g.types.Of(t))); err != nil {
			return err
		}
	}
	return g.Decode(src, v)
}

func (g *generated) decode(src []byte, v any) error {
	switch m := v.(type) {
	case unmarshaler:
		if _, ok := v.(interface{ ProtoMessage() }); ok {
			if err := g.prepare(src, m); err != nil {
				return err
			}
		}
		return m.Unmarshal(src)
	case gencodeUnmarshaler:
		return decodeGencode(src, m)
	case encoding.BinaryUnmarshaler:
		return m.UnmarshalBinary(src)
	}
	return g.decodeNew(src, v)
}

// decodeNew decodes into a pointer to a pointer, setting it to a new value.
func (g *generated) decodeNew(src []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.Type().Elem().Kind() != reflect.Pointer {
		return errors.New(wantUnmarshal)
	}
	if err := settable(p); err != nil {
		return err
	}
	target := reflect.New(p.Type().Elem().Elem())
	if err := g.Decode(src, target.Interface()); err != nil {
		return err
	}
	p.Elem().Set(target)
	return nil
}

// prepare checks a protobuf message and resets what it will be decoded into.
func (*generated) prepare(src []byte, m any) error {
	if len(src) > maxProtoDepth && mayNest(m) && protoTooDeep(src) {
		return fmt.Errorf("nested deeper than %d", maxProtoDepth)
	}
	if r, ok := m.(interface{ Reset() }); ok && !isEmpty(m) {
		r.Reset()
	}
	return nil
}

// isEmpty reports whether a message is known to be as Reset would leave it. To check
// is faster than to reset, and most messages are new.
func isEmpty(m any) bool {
	s, ok := m.(interface{ SizeVT() int })
	return ok && s.SizeVT() == 0
}

func decodeGencode(src []byte, m gencodeUnmarshaler) error {
	n, err := m.Unmarshal(src)
	if err == nil && n != uint64(len(src)) {
		err = fmt.Errorf("%d of %d bytes used", n, len(src))
	}
	return err
}
