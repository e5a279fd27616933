package codec

import (
	"bytes"
	"encoding/gob"
	"math/bits"
	"reflect"
)

// gobOp is how the decoder decodes a value of one type.
type gobOp struct {
	id      int          // id of the type
	wire    *gobWireType // description of the type; nil for a basic type of gob, or one that is not described
	parts   []*gobOp     // ops of its elements or fields, in the order of [gobWireType.ids]
	each    int64        // bytes of memory that each of its elements takes
	far     []int64      // bytes that each field of a struct takes behind pointers; nil for other types
	size    int64        // bytes of the value itself
	ignored bool         // the value is dropped, as the receiver has no place for it
	refused error        // why the receiver can't decode it; nil if it can
}

// gobPlan has the ops for the types of one schema. One op for each type would not do, for
// two reasons. A nil in an interface is decoded differently from how it is dropped. And
// the decoder decodes all fields of a struct that have the same Go type as it decodes the
// first of them, whatever types the message has for them.
//
// A plan is kept with a decoder, which has the same information in its own form.
type gobPlan struct {
	types map[int]*gobWireType
	ops   map[gobTarget]*gobOp
	held  map[gobHeld]*gobOp // ops of values in interfaces
}

// gobTarget is a type of the message and the Go type that it is decoded into: nil where
// the value is dropped, and an interface where only the types of the message matter.
type gobTarget struct {
	id int
	rt reflect.Type
}

// gobHeld is the name and id of the type of a value in an interface. The names are those
// that the program has registered, so their number is bounded.
type gobHeld struct {
	name string
	id   int
}

func newGobPlan(types map[int]*gobWireType) *gobPlan {
	return &gobPlan{types, make(map[gobTarget]*gobOp), make(map[gobHeld]*gobOp)}
}

// alone returns the op for a value that is not part of another.
func (p *gobPlan) alone(id int, rt reflect.Type) *gobOp {
	if p.types[id] == nil {
		return p.untyped(id, false)
	}
	target := gobTarget{id, rt}
	op := p.ops[target]
	if op == nil {
		if err := noProto(rt); err != nil {
			op = &gobOp{id: id, wire: p.types[id], refused: err}
		} else {
			op = p.compile(id, rt, make(map[reflect.Type]*gobOp))
		}
		p.ops[target] = op
	}
	return op
}

// compile returns the op of a part of a struct, as gob's decOpFor does; seen has the ops
// of that struct. Where the types do not fit, the result does not matter: the decoder
// fails before it decodes a value.
func (p *gobPlan) compile(id int, rt reflect.Type, seen map[reflect.Type]*gobOp) *gobOp {
	if op := seen[rt]; op != nil {
		return op
	}
	base := rt
	for n := 0; base.Kind() == reflect.Pointer && n < 100; n++ { // a type may point to itself
		base = base.Elem()
	}
	t := p.types[id]
	if t != nil && t.kind == gobStruct && base.Kind() == reflect.Struct {
		op := p.structure(id, t, base)
		seen[rt] = op
		return op
	}
	op := &gobOp{id: id, wire: t, size: int64(base.Size())} //nolint:gosec // a type's size
	seen[rt] = op
	switch {
	case t == nil:
	case (t.kind == gobSlice || t.kind == gobArray) && (base.Kind() == reflect.Slice || base.Kind() == reflect.Array):
		op.parts = []*gobOp{p.compile(t.refs[0], base.Elem(), seen)}
		op.each = eachOf(base)
	case t.kind == gobMap && base.Kind() == reflect.Map:
		op.parts = []*gobOp{p.compile(t.refs[0], base.Key(), seen), p.compile(t.refs[1], base.Elem(), seen)}
		op.each = 2*int64(base.Key().Size()+base.Elem().Size()) + far(base.Key()) + far(base.Elem()) + 2 //nolint:gosec // sizes of types
	default:
		return p.untyped(id, true)
	}
	return op
}

func (p *gobPlan) structure(id int, t *gobWireType, base reflect.Type) *gobOp {
	target := gobTarget{id, base}
	if op := p.ops[target]; op != nil {
		return op
	}
	op := &gobOp{id: id, wire: t, parts: make([]*gobOp, len(t.fields)), far: make([]int64, len(t.fields)), size: int64(base.Size())} //nolint:gosec // a type's size
	p.ops[target] = op
	seen := make(map[reflect.Type]*gobOp)
	for i, field := range t.fields {
		f, ok := base.FieldByName(t.names[i])
		if ok && f.IsExported() {
			op.parts[i], op.far[i] = p.compile(field, f.Type, seen), far(f.Type)
		} else {
			op.parts[i] = p.untyped(field, true)
		}
	}
	return op
}

// untyped returns the op for a value that is dropped, or that is decoded and has no
// structs inside: then the types of the message are enough.
func (p *gobPlan) untyped(id int, ignored bool) *gobOp {
	target := gobTarget{id: id}
	if !ignored {
		target.rt = reflect.TypeFor[any]()
	}
	if op := p.ops[target]; op != nil {
		return op
	}
	op := &gobOp{id: id, wire: p.types[id], ignored: ignored}
	if op.wire == nil && (id < 0 || id >= gobFirstDefined) {
		return op // not kept: a message may have any id
	}
	p.ops[target] = op
	if op.wire == nil {
		return op
	}
	ids := op.wire.ids()
	if !ignored {
		op.each = anyElement
	}
	op.parts = make([]*gobOp, len(ids))
	for i, part := range ids {
		op.parts[i] = p.untyped(part, ignored)
	}
	return op
}

// anyElement is how many bytes an element takes whose Go type is not known: without a
// struct inside, that is little.
const anyElement = 48

// eachOf returns the bytes that each element of a slice or an array takes. Those of an array
// are part of the array's own size.
func eachOf(list reflect.Type) int64 {
	each := far(list.Elem())
	if list.Kind() == reflect.Slice {
		each += int64(list.Elem().Size()) //nolint:gosec // a type's size
	}
	return each
}

// far returns the bytes that are allocated for a type behind its pointers.
func far(t reflect.Type) (bytes int64) {
	for n := 0; t.Kind() == reflect.Pointer && n < 100; n++ { // a type may point to itself
		t = t.Elem()
		bytes += max(8, int64(t.Size())) //nolint:gosec // a type's size
	}
	return bytes
}

// inside returns the op for the value in an interface.
func (s *gobScan) inside(name []byte, id int) *gobOp {
	if op := s.plan.held[gobHeld{string(name), id}]; op != nil {
		return op
	}
	empty := s.empty(id, 0)
	if empty == nil {
		return s.plan.untyped(id, false)
	}
	rt := s.registered(string(name), id, empty)
	if s.err != nil {
		return s.plan.untyped(id, false)
	}
	op := s.plan.alone(id, rt)
	s.plan.held[gobHeld{string(name), id}] = op
	return op
}

// empty returns the encoding of the shortest value of a type, or nil for a type that
// can't have a struct inside.
func (s *gobScan) empty(id, depth int) []byte {
	t := s.plan.types[id]
	if t == nil || t.kind == gobOpaque {
		return nil
	}
	if t.kind != gobArray {
		return []byte{0}
	}
	if depth >= MaxDepth {
		s.failf("nested deeper than %d", MaxDepth)
		return nil
	}
	elem := s.empty(t.refs[0], depth+1)
	n := t.refs[1]
	if elem == nil {
		return nil
	}
	if n < 0 || n > len(s.msg)/len(elem) {
		s.failf("an array of %d where %d bytes are left", n, len(s.msg))
		return nil
	}
	return append(appendGobUint(nil, n), bytes.Repeat(elem, n)...)
}

// registered returns the Go type that is registered with gob under that name. Gob has no
// function for that, so registered makes it decode an interface with that name and an
// empty value. If that fails, decoding the message would fail, too.
func (s *gobScan) registered(name string, id int, empty []byte) reflect.Type {
	if rt, ok := s.names.Load(name); ok {
		return rt.(reflect.Type)
	}
	if s.plan.types[id].kind != gobStruct {
		empty = append([]byte{0}, empty...)
	}
	value := append(appendGobUint([]byte{2 * gobInterface, 0}, len(name)), name...)
	value = append(appendGobUint(appendGobUint(value, 2*id), len(empty)), empty...)
	src := append(appendGobUint(bytes.Clone(s.prefix), len(value)), value...)
	var v any
	if err := gob.NewDecoder(bytes.NewReader(src)).Decode(&v); err != nil {
		s.fail(err)
		return nil
	}
	rt := reflect.TypeOf(v)
	s.names.Store(name, rt)
	return rt
}

// appendGobUint appends a number as [gobScan.uint] reads it.
func appendGobUint(b []byte, n int) []byte {
	if n < 0x80 {
		return append(b, byte(n)) //nolint:gosec // below 128
	}
	width := (bits.Len(uint(n)) + 7) / 8
	b = append(b, byte(-width)) //nolint:gosec // as gob does it
	for width--; width >= 0; width-- {
		b = append(b, byte(n>>(8*width))) //nolint:gosec // one byte of it
	}
	return b
}
