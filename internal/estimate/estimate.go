// Package estimate computes how much memory values of Go types take when they are decoded,
// for codecs that walk a message before they decode it.
//
// The sums are the bytes in use at the same time: a slice that grows is there twice for a
// while, and so is a map. They leave out the memory of the decoder itself.
package estimate

import (
	"bytes"
	"reflect"
	"sync"
)

// Kind says what memory a value takes beyond its own size.
type Kind uint8

// The kinds.
const (
	Leaf   Kind = iota // nothing: numbers, and types that decode themselves
	Text               // its bytes: strings and slices of bytes
	List               // its elements
	Struct             // what its fields take
	Map                // its keys and elements
	Any                // an interface: as the value in the message needs
	Raw                // decodes itself: at most as many bytes as its encoding has
)

// Type says how much memory a value of a Go type takes, in bytes.
type Type struct {
	Kind Kind
	Size int64 // of the value itself
	Far  int64 // what is allocated for it behind pointers
	Key  *Type // of a Map
	Elem *Type // of a Map or List
	each int64 // what each element of a Map or List takes

	fields map[string]*Type
	names  []string // of the fields, in order
	fixed  bool     // its encoding always has Size bytes: floats
	flat   bool
}

// Types makes and keeps the Type of each Go type. It is safe for concurrent use.
type Types struct {
	// Name returns the names of a field in messages; none if it is not in them.
	Name func(reflect.StructField) []string
	// Fields, if not nil, calls add for each field of a struct for which Name does not
	// work, and reports whether it has done so.
	Fields func(rt reflect.Type, add func(t reflect.Type, names ...string)) bool
	// Own reports whether a type decodes itself.
	Own func(reflect.Type) bool

	known sync.Map // *Type by reflect.Type
}

// Of returns the Type of a Go type.
func (ts *Types) Of(rt reflect.Type) *Type {
	if t, ok := ts.known.Load(rt); ok {
		return t.(*Type) //nolint:forcetypeassert // nothing else is stored
	}
	t := ts.compile(rt, map[reflect.Type]*Type{})
	t.flat = isFlat(t)
	kept, _ := ts.known.LoadOrStore(rt, t)
	return kept.(*Type) //nolint:forcetypeassert // as above
}

// isFlat reports whether a value of the type takes no more memory than its encoding has bytes.
func isFlat(t *Type) bool {
	switch t.Kind {
	case Leaf, Text, Raw:
		return true
	case List, Map, Any:
		return false
	case Struct:
		for _, f := range t.fields {
			if f == t || f.Kind == Struct || !isFlat(f) {
				return false
			}
		}
	}
	return true
}

// Flat reports whether a message for t takes no more memory than it has bytes, so that it
// need not be walked.
func (t *Type) Flat() bool { return t.flat }

// A map has room for eight elements at first, and doubles when it grows.
const (
	mapSize   = 48
	mapFirst  = 8
	mapGrowth = 2
	anySlot   = 16 // an interface
	anyList   = 24 // the header of a slice in an interface
	anyNumber = 8
)

var anything = newAnything() //nolint:gochecknoglobals // never changed

func newAnything() *Type {
	t := &Type{Kind: Any, Size: anySlot}
	t.Elem, t.Key = t, &Type{Kind: Text, Size: anySlot}
	return t
}

func (ts *Types) compile(rt reflect.Type, seen map[reflect.Type]*Type) *Type {
	if t := seen[rt]; t != nil {
		return t
	}
	t := &Type{Size: int64(rt.Size())} //nolint:gosec // a type's size
	seen[rt] = t
	base := rt
	for n := 0; base.Kind() == reflect.Pointer && n < 100; n++ { // a type may point to itself
		base = base.Elem()
		t.Far += max(8, int64(base.Size())) //nolint:gosec // as above
	}
	if ts.Own(base) {
		t.Kind = Raw
		return t
	}
	switch base.Kind() {
	case reflect.Float32, reflect.Float64:
		t.fixed = true
	case reflect.String:
		t.Kind = Text
	case reflect.Slice, reflect.Array:
		ts.list(t, base, seen)
	case reflect.Map:
		t.Kind = Map
		t.Key, t.Elem = ts.compile(base.Key(), seen), ts.compile(base.Elem(), seen)
		t.each = t.Key.Size + t.Elem.Size
	case reflect.Interface:
		t.Kind, t.Key, t.Elem = Any, anything.Key, anything
	case reflect.Struct:
		ts.structure(t, base, seen)
	}
	return t
}

func (ts *Types) list(t *Type, base reflect.Type, seen map[reflect.Type]*Type) {
	t.Kind, t.Elem = List, ts.compile(base.Elem(), seen)
	switch {
	case base.Kind() == reflect.Array: // its elements are part of its size
	case base.Elem().Kind() == reflect.Uint8:
		t.Kind = Text
	default:
		t.each = t.Elem.Size + t.Elem.Size/2
	}
}

func (ts *Types) structure(t *Type, base reflect.Type, seen map[reflect.Type]*Type) {
	t.Kind, t.fields = Struct, map[string]*Type{}
	if ts.Fields != nil && ts.Fields(base, func(rt reflect.Type, names ...string) { t.add(ts.compile(rt, seen), names) }) {
		return
	}
	for _, f := range reflect.VisibleFields(base) {
		names := ts.Name(f)
		if len(names) == 0 {
			continue
		}
		of := ts.compile(f.Type, seen)
		if far := throughPointers(base, f.Index); far > 0 {
			of = &Type{Kind: of.Kind, Size: of.Size, Far: of.Far + far, Key: of.Key, Elem: of.Elem, each: of.each, fields: of.fields, names: of.names}
		}
		t.add(of, names)
	}
}

func (t *Type) add(field *Type, names []string) {
	for _, name := range names {
		t.fields[name] = field
	}
	t.names = append(t.names, names[0])
}

// throughPointers returns the bytes allocated for embedded pointers on the way to a field.
func throughPointers(base reflect.Type, index []int) (far int64) {
	for _, i := range index[:len(index)-1] {
		base = base.Field(i).Type
		if base.Kind() == reflect.Pointer {
			base = base.Elem()
			far += int64(base.Size()) //nolint:gosec // a type's size
		}
	}
	return far
}

// Field returns the field of that name, whatever its case if folded; nil if there is none.
func (t *Type) Field(name []byte, folded bool) *Type {
	if f, ok := t.fields[string(name)]; ok || !folded {
		return f
	}
	for other, f := range t.fields {
		if len(other) <= 2*len(name) && bytes.EqualFold([]byte(other), name) {
			return f
		}
	}
	return nil
}

// At returns the field with index i; nil if there is none.
func (t *Type) At(i int) *Type {
	if i >= len(t.names) {
		return nil
	}
	return t.fields[t.names[i]]
}

// Scalar returns what a number, a boolean or the like takes. A nil Type takes nothing.
func (t *Type) Scalar() int64 {
	switch {
	case t == nil:
		return 0
	case t.Kind == Any:
		return anyNumber
	}
	return t.Far
}

// Bytes returns what a text of n bytes takes.
func (t *Type) Bytes(n int) int64 {
	switch {
	case t == nil:
		return 0
	case t.Kind == Any:
		return anySlot + int64(n)
	case t.Kind == Leaf:
		return t.Far
	}
	return t.Far + int64(n)
}

// Head returns what a list or map takes without its elements.
func (t *Type) Head(isMap bool) int64 {
	switch {
	case t == nil:
		return 0
	case isMap && (t.Kind == Any || t.Kind == Map):
		return t.Far + mapSize
	case t.Kind == Any:
		return anyList
	}
	return t.Far
}

// Element returns what element i of a list or map takes, without what its value takes beyond its own size.
func (t *Type) Element(isMap bool, i int) int64 {
	var each int64
	switch {
	case t == nil:
		return 0
	case t.Kind == Any && isMap:
		each = 2 * anySlot
	case t.Kind == Any:
		return anySlot + anySlot/2
	case t.Kind == List:
		return t.each
	case t.Kind != Map:
		return 0
	default:
		each = t.each
	}
	switch {
	case i == 0:
		return mapFirst * (each + 1)
	case i < mapFirst:
		return 0
	}
	return mapGrowth*each + 2
}
