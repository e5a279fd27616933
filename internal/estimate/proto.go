package estimate

import (
	"encoding/binary"
	"reflect"
	"strconv"
	"strings"
)

// ProtoTypes returns Types for generated messages of Protocol Buffers, with fields by number and
// name. fields is Types.Fields, for messages whose tags don't describe their fields; it may be nil.
func ProtoTypes(fields func(rt reflect.Type, add func(t reflect.Type, names ...string)) bool) *Types {
	return &Types{Name: protoNames, Fields: fields, Own: func(reflect.Type) bool { return false }}
}

func protoNames(f reflect.StructField) (names []string) {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 || !f.IsExported() {
		return nil
	}
	for _, part := range parts[2:] {
		for _, key := range []string{"name=", "json="} {
			if name, ok := strings.CutPrefix(part, key); ok {
				names = append(names, name)
			}
		}
	}
	return append([]string{parts[1]}, names...)
}

// unseen is how many bytes of memory one byte takes of a message whose fields are not known.
const unseen = 4

// Proto returns about how many bytes of memory a message of type t takes when src is decoded
// into it.
func Proto(src []byte, t *Type) int64 {
	if t.Kind != Struct || len(t.fields) == 0 && len(src) > 0 { // the fields are not known
		return t.Far + unseen*int64(len(src))
	}
	return t.Far + protoFields(src, t, maxDepth)
}

func protoFields(src []byte, t *Type, depth int) (total int64) {
	for len(src) > 0 && depth > 0 {
		tag, n := binary.Uvarint(src)
		if n <= 0 {
			return total
		}
		var text [20]byte
		field := t.Field(strconv.AppendUint(text[:0], tag>>3, 10), false)
		value, size := protoValue(src[n:], tag&7)
		if size < 0 {
			return total
		}
		if tag&7 == 2 {
			total += protoBytes(value, field, depth)
		} else {
			total += field.protoScalar()
		}
		src = src[n+size:]
	}
	return total
}

// protoValue returns the bytes of a value and how many bytes of src it takes; -1 if it is
// cut off.
func protoValue(src []byte, wire uint64) (value []byte, size int) {
	switch wire {
	case 0:
		_, size = binary.Uvarint(src)
	case 1:
		size = 8
	case 2:
		length, n := binary.Uvarint(src)
		if n <= 0 || length > uint64(len(src)-n) { //nolint:gosec // never negative
			return nil, -1
		}
		return src[n : n+int(length)], n + int(length) //nolint:gosec // at most len(src)
	case 3, 4: // groups: their fields count as those of the message
		return nil, 0
	case 5:
		size = 4
	}
	if size <= 0 || size > len(src) {
		return nil, -1
	}
	return src[:size], size
}

// protoScalar returns what a number takes, which may be an element of a list.
func (t *Type) protoScalar() int64 {
	switch {
	case t == nil:
		return 4 // an unknown field is kept in its encoding
	case t.Kind == List:
		return t.each + t.Elem.Far
	}
	return t.Far
}

// protoBytes returns what a text, a message, a packed list, or an element of a map takes.
func protoBytes(value []byte, t *Type, depth int) int64 {
	switch {
	case t == nil:
		return int64(len(value)) // as above
	case t.Kind == Map:
		return 2*t.each + t.Elem.Far + mapFirst + protoFields(value, &Type{fields: map[string]*Type{"1": t.Key, "2": t.Elem}}, depth-1)
	case t.Kind != List:
		return protoElement(value, t, depth)
	}
	if t.Elem.Kind == Leaf { // packed: numbers of at least one byte
		return t.each * int64(protoPacked(value, t.Elem))
	}
	return t.each + protoElement(value, t.Elem, depth)
}

func protoElement(value []byte, t *Type, depth int) int64 {
	switch t.Kind {
	case Struct:
		if len(t.fields) == 0 {
			return t.Far + unseen*int64(len(value))
		}
		return t.Far + protoFields(value, t, depth-1)
	case Any:
		return unseen * int64(1+len(value))
	}
	return t.Far + int64(len(value))
}

// protoPacked returns how many numbers a packed list has at most.
func protoPacked(value []byte, elem *Type) (n int) {
	if elem.fixed {
		return len(value) / int(elem.Size)
	}
	for _, b := range value {
		if b < 0x80 {
			n++
		}
	}
	return n
}
