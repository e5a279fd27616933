package msgpack

import (
	"encoding"
	"reflect"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/estimate"
)

func newTypes() *estimate.Types {
	return &estimate.Types{Name: names, Own: decodesItself}
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() != reflect.Interface && (p.Implements(reflect.TypeFor[msgpack.CustomDecoder]()) ||
		p.Implements(reflect.TypeFor[msgpack.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.BinaryUnmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
}

// names returns the name of a field in messages: that of its tag or else its name in Go; none
// for a field that is not encoded.
func names(f reflect.StructField) []string {
	tag, ok := f.Tag.Lookup("msgpack")
	if !ok {
		tag = f.Tag.Get(fallbackTag)
	}
	name, _, _ := strings.Cut(tag, ",")
	switch {
	case name == "-" || !f.IsExported():
		return nil
	case name == "":
		name = f.Name
	}
	return []string{name}
}

// DecodeWithin calls memory.Expect for the value before it decodes it.
func (c *msgpackCodec) DecodeWithin(src []byte, v any, memory codec.Memory) error {
	if _, ok := v.(unmarshaler); !ok {
		if _, err := scan(src, timestamps); err != nil {
			return err
		}
	} else if _, err := scan(src, anyExtension); err != nil {
		return err
	}
	if t := reflect.TypeOf(v); t != nil {
		if err := memory.Expect(sizeOf(src, c.types.Of(t))); err != nil {
			return err
		}
	}
	return c.Decode(src, v)
}

// sizeOf returns about how many bytes of memory a value of type t takes when src, which
// scan has walked, is decoded into it.
func sizeOf(src []byte, t *estimate.Type) int64 {
	if t.Flat() {
		return int64(len(src))
	}
	s := sizer{scanner: scanner{src: src, ext: anyExtension}}
	s.value(t)
	return s.total
}

// sizer walks a message that is known to be complete.
type sizer struct {
	scanner

	total int64
}

// value walks a value; a nil type is for a value that the program has no place for.
func (s *sizer) value(t *estimate.Type) {
	start := s.pos
	if start == len(s.src) {
		return
	}
	c := s.src[start]
	inside, err := s.item()
	if err != nil {
		s.pos = len(s.src)
		return
	}
	switch {
	case isMap(c):
		s.total += t.Head(true)
		s.pairs(t, inside/2)
	case isList(c):
		s.total += t.Head(false)
		s.list(t, inside)
	case isText(c):
		s.total += t.Bytes(s.pos - start)
	default:
		s.total += t.Scalar()
	}
	if t != nil && t.Kind == estimate.Raw {
		s.total += int64(s.pos - start)
	}
}

func isMap(c byte) bool {
	return msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32
}

func isList(c byte) bool {
	return msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32
}

func isText(c byte) bool { return msgpcode.IsString(c) || msgpcode.IsBin(c) }

// list walks the elements of an array, which may also be the fields of a struct in order.
func (s *sizer) list(t *estimate.Type, n int) {
	for i := range n {
		s.total += t.Element(false, i)
		switch {
		case t == nil:
			s.value(nil)
		case t.Kind == estimate.Struct:
			s.value(t.At(i))
		case t.Kind == estimate.List || t.Kind == estimate.Any:
			s.value(t.Elem)
		default:
			s.value(nil)
		}
	}
}

func (s *sizer) pairs(t *estimate.Type, n int) {
	for i := range n {
		s.total += t.Element(true, i)
		switch {
		case t == nil:
			s.value(nil)
			s.value(nil)
		case t.Kind == estimate.Map || t.Kind == estimate.Any:
			s.value(t.Key)
			s.value(t.Elem)
		default:
			s.value(s.member(t))
		}
	}
}

// member walks a name and returns the type of the field.
func (s *sizer) member(t *estimate.Type) *estimate.Type {
	start := s.pos
	s.value(nil)
	name := s.src[start:s.pos]
	if len(name) == 0 || t.Kind != estimate.Struct {
		return nil
	}
	switch head := name[0]; {
	case msgpcode.IsFixedString(head):
		return t.Field(name[1:], false)
	case head == msgpcode.Str8 || head == msgpcode.Bin8:
		return t.Field(name[2:], false)
	case head == msgpcode.Str16 || head == msgpcode.Bin16:
		return t.Field(name[3:], false)
	case head == msgpcode.Str32 || head == msgpcode.Bin32:
		return t.Field(name[5:], false)
	}
	return nil
}
