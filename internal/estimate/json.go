package estimate

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// JSONTypes returns Types for values that encoding/json decodes.
func JSONTypes() *Types {
	return &Types{Name: jsonNames, Own: func(t reflect.Type) bool {
		p := reflect.PointerTo(t)
		return t.Kind() != reflect.Interface &&
			(p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
	}}
}

func jsonNames(f reflect.StructField) []string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case !f.IsExported() || name == "-" || f.Anonymous && name == "":
		return nil
	case name == "":
		name = f.Name
	}
	return []string{name}
}

// JSON returns about how many bytes of memory a value of type t takes when src is decoded
// into it. It stops where src nests too deep to be decoded, or is not JSON.
func JSON(src []byte, t *Type) int64 {
	if t.Flat() {
		return int64(len(src))
	}
	s := jsonSize{src: src}
	s.value(t)
	return s.total
}

// maxDepth is deeper than anything that is decoded.
const maxDepth = 128

// jsonSize walks JSON.
type jsonSize struct {
	src   []byte
	i     int
	depth int
	total int64
}

// next returns the next byte that is not a space; 0 at the end.
func (s *jsonSize) next() byte {
	for ; s.i < len(s.src); s.i++ {
		switch c := s.src[s.i]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// value walks a value; a nil type is for a value that the program has no place for.
func (s *jsonSize) value(t *Type) {
	start := s.i
	if s.depth++; s.depth > maxDepth {
		s.i = len(s.src)
	}
	defer func() { s.depth-- }()
	switch s.next() {
	case 0:
	case '{':
		s.total += t.Head(true)
		s.object(t)
	case '[':
		s.total += t.Head(false)
		s.array(t)
	case '"':
		s.total += t.Bytes(len(s.text()))
	default:
		s.total += t.Scalar()
		s.scalar()
	}
	if t != nil && t.Kind == Raw {
		s.total += int64(s.i - start)
	}
}

// text steps over a string and returns it with its escapes.
func (s *jsonSize) text() []byte {
	start := s.i + 1
	end := endOfString(s.src, start)
	s.i = min(end+1, len(s.src))
	return s.src[start:min(end, len(s.src))]
}

// endOfString returns the index of the quote that ends the string at i.
func endOfString(src []byte, i int) int {
	for ; i < len(src) && src[i] != '"'; i++ {
		if src[i] == '\\' {
			i++
		}
	}
	return i
}

// scalar steps over a number or a literal, up to the byte after it.
func (s *jsonSize) scalar() {
	for s.i++; s.i < len(s.src); s.i++ {
		switch s.src[s.i] {
		case ',', ']', '}', ' ', '\t', '\r', '\n', ':', '"', '[', '{':
			return
		}
	}
}

func (s *jsonSize) array(t *Type) {
	s.i++
	of := (*Type)(nil)
	if t != nil && (t.Kind == List || t.Kind == Any) {
		of = t.Elem
	}
	for i := 0; ; i++ {
		switch s.next() {
		case 0:
			return
		case ']', '}':
			s.i++
			return
		}
		s.total += t.Element(false, i)
		s.value(of)
	}
}

func (s *jsonSize) object(t *Type) {
	s.i++
	for i := 0; ; i++ {
		switch s.next() {
		case 0:
			return
		case ']', '}':
			s.i++
			return
		case '"':
		default: // not JSON
			s.scalar()
			continue
		}
		name := s.text()
		s.total += t.Element(true, i)
		s.value(s.member(t, name))
	}
}

// member returns the type of the value behind a name.
func (s *jsonSize) member(t *Type, name []byte) *Type {
	switch {
	case t == nil:
		return nil
	case t.Kind == Struct:
		return t.Field(unescaped(name), true)
	case t.Kind == Map || t.Kind == Any:
		s.total += t.Key.Bytes(len(name))
		return t.Elem
	}
	return nil
}

// unescaped returns a name with its escapes replaced; few names have any.
func unescaped(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	var plain string
	if json.Unmarshal(append(append([]byte{'"'}, name...), '"'), &plain) != nil {
		return name
	}
	return []byte(plain)
}
