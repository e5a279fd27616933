package codec

import (
	"fmt"
	"sync"
)

// The type ids of gob's basic types, and the first id for others.
const (
	gobBool = iota + 1
	gobInt
	gobUint
	gobFloat
	gobBytes
	gobString
	gobComplex
	gobInterface

	gobFirstDefined = 64
	gobMaxID        = 1 << 30 // the decoder cuts ids to 32 bits
)

// The kinds of described types, by their field in gob's wireType. Two more follow
// these, for types with methods of their own, which look like gobOpaque.
const (
	gobArray = iota
	gobSlice
	gobStruct
	gobMap
	gobOpaque

	gobKinds = gobOpaque + 3
)

// gobWireType is a described type.
type gobWireType struct {
	kind   int
	refs   [2]int   // array: element, length; slice: element; map: key, element
	fields []int    // struct: the types of its fields
	names  []string // names of these fields
}

// ids returns the ids of the types that t is made of.
func (t *gobWireType) ids() []int {
	switch t.kind {
	case gobArray, gobSlice:
		return t.refs[:1]
	case gobMap:
		return t.refs[:]
	}
	return t.fields
}

// gobScan walks a gob before encoding/gob decodes it, because the decoder trusts
// declared lengths: by the capacity of a map, ten bytes can take all memory. The
// grammar is at the end of encoding/gob's doc.go. The scan follows the decoder's
// steps, which [gobPlan] has, and stops at the first error. After that all methods
// keep err, and the numbers that they return are zero.
type gobScan struct {
	msg  []byte // unread bytes of the current message
	rest []byte // bytes of the messages that follow it
	err  error

	// For type descriptions:
	types map[int]*gobWireType
	work  int // number of steps that charge has counted

	// For the value:
	plan   *gobPlan
	prefix []byte    // the type descriptions before the value
	names  *sync.Map // names of gobCodec
	cost   int64     // bytes that the value takes in memory
}

func (s *gobScan) failf(format string, args ...any) { s.fail(fmt.Errorf("gob: "+format, args...)) }

func (s *gobScan) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.msg, s.rest = nil, nil
}

// next goes on to the next message.
func (s *gobScan) next() {
	s.msg, s.rest = s.rest, nil
	n := s.uint()
	if n > uint64(len(s.msg)) {
		s.failf("a message claims %d bytes where %d are left", n, len(s.msg))
		return
	}
	s.msg, s.rest = s.msg[:n], s.msg[n:]
}

// uint reads a number: one byte below 128, else the negated count of the bytes
// that follow, in big-endian order.
func (s *gobScan) uint() uint64 {
	if len(s.msg) == 0 {
		s.failf("cut short")
		return 0
	}
	b := s.msg[0]
	s.msg = s.msg[1:]
	if b < 0x80 {
		return uint64(b)
	}
	n := -int(int8(b)) //nolint:gosec // a negated count, by the format
	if n > 8 || n > len(s.msg) {
		s.failf("a number of %d bytes where %d are left", n, len(s.msg))
		return 0
	}
	var x uint64
	for _, b := range s.msg[:n] {
		x = x<<8 | uint64(b)
	}
	s.msg = s.msg[n:]
	return x
}

// int reads a small signed number: a type id, or the length of an array.
func (s *gobScan) int() int {
	x := s.uint()
	i := int64(x >> 1)
	if x&1 != 0 {
		i = ^i
	}
	if i <= -gobMaxID || i >= gobMaxID {
		s.failf("type id %d out of range", i)
		return 0
	}
	return int(i)
}

// count reads the number of items that follow, each of at least size bytes.
func (s *gobScan) count(size int) int {
	n := s.uint()
	if n > uint64(len(s.msg)/size) { //nolint:gosec // never negative
		s.failf("a length of %d where %d bytes are left", n, len(s.msg))
		return 0
	}
	return int(n) //nolint:gosec // at most the length of the message
}

// bytes steps over a byte string and returns it.
func (s *gobScan) bytes() []byte {
	n := s.count(1)
	b := s.msg[:n]
	s.msg = s.msg[n:]
	return b
}

// fields calls visit for each field of a struct that the message has.
func (s *gobScan) fields(visit func(field int)) {
	for field := -1; s.err == nil; {
		delta := s.uint()
		if delta == 0 {
			return
		}
		if delta > maxGobPrefix {
			s.failf("a field number of a struct grows by %d, limit %d", delta, maxGobPrefix)
			return
		}
		field += int(delta)
		visit(field)
	}
}

// define reads the description of the type id.
func (s *gobScan) define(id int) {
	if id < gobFirstDefined || s.types[id] != nil || len(s.types) >= maxGobTypes {
		s.failf("type %d is a basic type or described twice, or there are more than %d types", id, maxGobTypes)
		return
	}
	t := &gobWireType{kind: gobKinds}
	s.fields(func(kind int) {
		if t.kind != gobKinds || kind >= gobKinds {
			s.failf("type %d has several kinds, or an unknown one", id)
			return
		}
		t.kind = min(kind, gobOpaque)
		s.describe(t)
	})
	if t.kind == gobKinds {
		s.failf("type %d has no kind", id)
	}
	s.types[id] = t
}

// describe reads one of gob's arrayType, mapType, sliceType and structType.
func (s *gobScan) describe(t *gobWireType) {
	s.fields(func(field int) {
		switch {
		case field == 0:
			s.named()
		case field == 1 && t.kind == gobStruct:
			s.structFields(t)
		case field <= len(t.refs):
			t.refs[field-1] = s.int()
		default:
			s.failf("field %d in the description of a type", field)
		}
	})
}

func (s *gobScan) structFields(t *gobWireType) {
	n := s.count(1)
	if n > maxGobWork {
		s.failf("a type of %d fields, limit %d", n, maxGobWork)
		return
	}
	t.fields, t.names = make([]int, n), make([]string, n)
	for i := range t.fields {
		t.names[i], t.fields[i] = s.named()
	}
}

// named reads a name and a type id: gob's CommonType or fieldType.
func (s *gobScan) named() (name string, id int) {
	s.fields(func(field int) {
		switch field {
		case 0:
			name = string(s.bytes())
		case 1:
			id = s.int()
		default:
			s.failf("field %d in the description of a type", field)
		}
	})
	return name, id
}

// weigh fails if the types take too much work to compile.
func (s *gobScan) weigh() {
	for _, t := range s.types {
		for _, id := range t.fields {
			s.charge(id, make(map[int]bool))
		}
	}
}

// charge counts the steps of the decoder to compile a field that the program does not
// have: one for every type that it is made of, down to the next struct.
func (s *gobScan) charge(id int, seen map[int]bool) {
	s.work++
	if s.work > maxGobWork {
		s.failf("types with more than %d fields", maxGobWork)
		return
	}
	t := s.types[id]
	if t == nil || t.kind == gobStruct || seen[id] {
		return
	}
	seen[id] = true
	for _, x := range t.ids() {
		s.charge(x, seen)
	}
}

// alone walks a value that is not part of another. One that is not a struct has
// a zero before it.
func (s *gobScan) alone(op *gobOp, depth int) {
	if op.refused != nil {
		s.fail(op.refused)
		return
	}
	if op.wire == nil || op.wire.kind != gobStruct {
		if s.uint() != 0 {
			s.failf("a value that is not a struct has no zero before it")
		}
	}
	s.value(op, depth)
}

func (s *gobScan) value(op *gobOp, depth int) {
	switch op.id {
	case gobBool, gobInt, gobUint, gobFloat:
		s.uint()
	case gobComplex:
		s.uint()
		s.uint()
	case gobBytes, gobString:
		s.cost += int64(len(s.bytes()))
	case gobInterface:
		s.iface(op, depth)
	default:
		s.defined(op, depth)
	}
}

func (s *gobScan) defined(op *gobOp, depth int) {
	if op.wire == nil {
		s.failf("type %d is not described", op.id)
		return
	}
	if depth >= MaxDepth {
		s.failf("nested deeper than %d", MaxDepth)
		return
	}
	switch op.wire.kind {
	case gobArray, gobSlice:
		n := s.count(1)
		s.cost += int64(n) * op.each
		s.elements(n, op, depth)
	case gobMap:
		n := s.count(2)
		s.cost += int64(n) * op.each
		s.elements(n, op, depth)
	case gobStruct:
		s.structure(op, depth)
	default:
		s.cost += int64(len(s.bytes()))
	}
}

// elements walks n elements, or keys and elements.
func (s *gobScan) elements(n int, op *gobOp, depth int) {
	for ; n > 0 && s.err == nil; n-- {
		for _, part := range op.parts {
			s.value(part, depth+1)
		}
	}
}

func (s *gobScan) structure(op *gobOp, depth int) {
	s.fields(func(field int) {
		if field >= len(op.parts) {
			s.failf("field %d of a struct that has %d", field, len(op.parts))
			return
		}
		if op.far != nil {
			s.cost += op.far[field]
		}
		s.value(op.parts[field], depth+1)
	})
}

// iface walks an interface value: the name of its type, empty for nil, the type, and
// the value with its length. Gob may describe the type in between; such a value comes
// in pieces, which the decoder misreads where it drops the value, so they are refused.
// [Gob] describes all types beforehand.
func (s *gobScan) iface(op *gobOp, depth int) {
	if depth >= MaxDepth {
		s.failf("nested deeper than %d", MaxDepth)
		return
	}
	name := s.bytes()
	if len(name) == 0 {
		if op.ignored {
			// The decoder would not stop here, but misread what follows as a value.
			s.failf("a nil in an interface that the receiver has no field for")
		}
		return
	}
	id := s.int()
	if id < 0 {
		s.failf("a type is described inside a value, not before it")
	}
	n := s.count(1)
	after := s.msg[n:]
	if !op.ignored {
		s.msg = s.msg[:n]
		inside := s.inside(name, id)
		s.cost += inside.size
		s.alone(inside, depth+1)
		if len(s.msg) > 0 {
			s.failf("bytes left over in an interface value")
		}
	}
	if s.err == nil {
		s.msg = after
	}
}
