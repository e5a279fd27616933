package gobjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Limits of what a gob says.
const (
	maxDepth = 1000     // how deep values are nested
	maxTypes = 1024     // types that it describes
	maxExtra = 64 << 20 // bytes of its JSON that are more than the gob's values: names of fields, zeros, keys of maps
)

// Text returns a gob, complete in itself, as JSON. A field that the gob leaves out is zero, and
// is shown so; an absent pointer looks the same. Bytes are in base64, a complex number is an
// array of two, and numbers that JSON can't express are strings. A value that encodes itself
// (GobEncode, MarshalBinary) is its bytes, unless it is a time.
func Text(message []byte) ([]byte, error) {
	d := &decoder{rest: message, types: make(map[int]*wireType)}
	for {
		d.next()
		id := d.int()
		if id >= 0 {
			var text []byte
			if t := d.typeOf(id); t.kind != aStruct && d.uint() != 0 {
				d.fail(errMalformed)
			}
			text = d.value(text, id, 0)
			if len(d.message)+len(d.rest) > 0 {
				d.fail(errMalformed)
			}
			return text, d.err
		}
		d.define(-id)
	}
}

// The type ids of gob's basic types; described types have others.
const (
	tBool = iota + 1
	tInt
	tUint
	tFloat
	tBytes
	tString
	tComplex
	tInterface

	tFirstDescribed = 64
)

// kind is how a described type is made.
type kind int

// The kinds, by their field in gob's wireType. Types that encode themselves are the rest.
const (
	anArray kind = iota
	aSlice
	aStruct
	aMap
	anOpaque

	aBasic kind = -1
)

// wireType is a type.
type wireType struct {
	kind   kind
	name   string
	refs   [2]int // array and slice: element; map: key, element
	fields []field
}

// field is a field of a struct.
type field struct {
	name []byte // in JSON
	id   int
}

var errMalformed = errors.New("malformed")

// decoder reads a gob; the grammar is at the end of encoding/gob's doc.go. After an error, which it
// keeps, nothing is left to read, and all numbers are zero.
type decoder struct {
	message []byte // what is left of the message that is read
	rest    []byte // the messages after it
	types   map[int]*wireType
	extra   int // bytes of the JSON that count for maxExtra
	err     error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.message, d.rest = nil, nil
}

// next goes on to the next message.
func (d *decoder) next() {
	d.message, d.rest = d.rest, nil
	n := d.count(1)
	d.message, d.rest = d.message[:n], d.message[n:]
}

// uint reads a number: one byte below 128, else the negated count of the bytes that follow.
func (d *decoder) uint() uint64 {
	if len(d.message) == 0 {
		d.fail(errMalformed)
		return 0
	}
	b := d.message[0]
	d.message = d.message[1:]
	if b < 128 {
		return uint64(b)
	}
	n := 256 - int(b)
	if n > 8 || n > len(d.message) {
		d.fail(errMalformed)
		return 0
	}
	var x uint64
	for _, b := range d.message[:n] {
		x = x<<8 | uint64(b)
	}
	d.message = d.message[n:]
	return x
}

func (d *decoder) int64() int64 {
	x := d.uint()
	i := int64(x >> 1)
	if x&1 != 0 {
		return ^i
	}
	return i
}

// int reads a small number, such as the id of a type.
func (d *decoder) int() int {
	i := d.int64()
	if i < math.MinInt32 || i > math.MaxInt32 {
		d.fail(errMalformed)
		return 0
	}
	return int(i)
}

// count reads how many items follow, each of size bytes or more.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.message)/size) { //nolint:gosec // never negative
		d.fail(errMalformed)
		return 0
	}
	return int(n) //nolint:gosec // at most the length of the message
}

func (d *decoder) bytes() []byte {
	n := d.count(1)
	b := d.message[:n]
	d.message = d.message[n:]
	return b
}

// each calls visit for each field that the message has of a struct.
func (d *decoder) each(visit func(field int)) {
	for at := -1; d.err == nil; {
		delta := d.uint()
		if delta == 0 {
			return
		}
		if delta > math.MaxInt16 {
			d.fail(errMalformed)
			return
		}
		at += int(delta)
		visit(at)
	}
}

// define reads the description of a type.
func (d *decoder) define(id int) {
	if id < tFirstDescribed || len(d.types) >= maxTypes {
		d.fail(fmt.Errorf("type %d is described, a basic type or one of more than %d", id, maxTypes))
		return
	}
	t := new(wireType)
	d.each(func(k int) {
		t.kind = min(kind(k), anOpaque)
		d.each(func(at int) {
			switch {
			case at == 0:
				t.name, _ = d.named()
			case t.kind == aStruct:
				d.structFields(t)
			case at <= len(t.refs):
				t.refs[at-1] = d.int()
			default:
				d.fail(errMalformed)
			}
		})
	})
	d.types[id] = t
}

func (d *decoder) structFields(t *wireType) {
	for range d.count(2) {
		name, id := d.named()
		text, err := json.Marshal(name)
		if err != nil {
			d.fail(err)
			return
		}
		t.fields = append(t.fields, field{text, id})
	}
}

// named reads a name and the id of a type.
func (d *decoder) named() (name string, id int) {
	d.each(func(at int) {
		switch at {
		case 0:
			name = string(d.bytes())
		case 1:
			id = d.int()
		default:
			d.fail(errMalformed)
		}
	})
	return name, id
}

// typeOf returns the type with an id.
func (d *decoder) typeOf(id int) *wireType {
	if t := d.types[id]; t != nil {
		return t
	}
	if id < tBool || id > tInterface {
		d.fail(fmt.Errorf("type %d is not described", id))
	}
	return &wireType{kind: aBasic}
}

// value reads a value and appends its JSON.
func (d *decoder) value(dst []byte, id, depth int) []byte {
	if depth > maxDepth {
		d.fail(fmt.Errorf("nested deeper than %d", maxDepth))
		return dst
	}
	switch t := d.typeOf(id); t.kind {
	case aBasic:
		return d.basic(dst, id, depth)
	case anArray, aSlice:
		dst = append(dst, '[')
		for i := range d.count(1) {
			dst = d.value(comma(dst, i > 0), t.refs[0], depth+1)
		}
		return append(dst, ']')
	case aStruct:
		return d.structure(dst, t, depth)
	case aMap:
		return d.mapping(dst, t, depth)
	default:
		return d.opaque(dst, t)
	}
}

func comma(dst []byte, needed bool) []byte {
	if needed {
		return append(dst, ',')
	}
	return dst
}

// basic reads a value of a basic type.
func (d *decoder) basic(dst []byte, id, depth int) []byte {
	switch id {
	case tBool:
		return d.marshal(dst, d.uint() != 0)
	case tInt:
		return d.marshal(dst, d.int64())
	case tUint:
		return d.marshal(dst, d.uint())
	case tFloat:
		return d.float(dst)
	case tBytes:
		return d.marshal(dst, d.bytes())
	case tString:
		return d.marshal(dst, string(d.bytes()))
	case tComplex:
		dst = d.float(append(dst, '['))
		return append(d.float(append(dst, ',')), ']')
	default:
		return d.inside(dst, depth)
	}
}

func (d *decoder) marshal(dst []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		d.fail(err)
	}
	return append(dst, text...)
}

// float reads a float: its bytes are in reverse order, as those of most values end in zeros.
func (d *decoder) float(dst []byte) []byte {
	f := math.Float64frombits(bits.ReverseBytes64(d.uint()))
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return d.marshal(dst, fmt.Sprint(f))
	}
	return d.marshal(dst, f)
}

// inside reads the value of an interface: the name of its type, empty for nil, its id, its
// length, and the value as it stands alone.
func (d *decoder) inside(dst []byte, depth int) []byte {
	if len(d.bytes()) == 0 {
		return append(dst, "null"...)
	}
	id := d.int()
	if id < 0 {
		d.fail(errors.New("a type is described inside a value, not before it: call again, and the server has described it"))
		return dst
	}
	d.count(1)
	if t := d.typeOf(id); t.kind != aStruct && d.uint() != 0 {
		d.fail(errMalformed)
	}
	return d.value(dst, id, depth+1)
}

func (d *decoder) structure(dst []byte, t *wireType, depth int) []byte {
	dst = append(dst, '{')
	shown := 0
	zeros := func(until int) {
		for ; shown < until && d.err == nil; shown++ {
			dst = d.zero(d.name(dst, t, shown), t.fields[shown].id)
		}
	}
	d.each(func(at int) {
		if at >= len(t.fields) {
			d.fail(errMalformed)
			return
		}
		zeros(at)
		dst = d.value(d.name(dst, t, at), t.fields[at].id, depth+1)
		shown = at + 1
	})
	zeros(len(t.fields))
	return append(dst, '}')
}

// name appends the name of a struct's field.
func (d *decoder) name(dst []byte, t *wireType, at int) []byte {
	name := t.fields[at].name
	if !d.spend(len(name) + maxZero) {
		return dst
	}
	return append(append(comma(dst, at > 0), name...), ':')
}

// maxZero is how many bytes [decoder.zero] appends at most, with a comma and a colon.
const maxZero = len("[0,0],:")

// spend counts bytes of the JSON that the gob need not have, and reports whether it may have them.
func (d *decoder) spend(n int) bool {
	if d.extra += n; d.extra > maxExtra {
		d.fail(fmt.Errorf("its JSON would have more than %d bytes of names, zeros and keys", maxExtra))
		return false
	}
	return true
}

// zero appends the JSON of a field that is left out.
func (d *decoder) zero(dst []byte, id int) []byte {
	switch t := d.typeOf(id); {
	case id == tBool:
		return append(dst, "false"...)
	case id == tInt, id == tUint, id == tFloat:
		return append(dst, '0')
	case id == tBytes, id == tString:
		return append(dst, `""`...)
	case id == tComplex:
		return append(dst, "[0,0]"...)
	case t.kind == aSlice:
		return append(dst, "[]"...)
	case t.kind == aMap:
		return append(dst, "{}"...)
	}
	return append(dst, "null"...)
}

// mapping reads a map. Its members are in the order of their keys.
func (d *decoder) mapping(dst []byte, t *wireType, depth int) []byte {
	type member struct{ key, value []byte }
	var members []member
	for range d.count(2) {
		key := d.value(nil, t.refs[0], depth+1)
		if len(key) > 0 && key[0] != '"' {
			key = d.marshal(nil, string(key)) // JSON's keys are strings
		}
		if !d.spend(len(key)) { // a key inside a key is quoted twice, and so doubles with each level
			return dst
		}
		members = append(members, member{key, d.value(nil, t.refs[1], depth+1)})
		if d.err != nil {
			return dst
		}
	}
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, m := range members {
		dst = append(append(comma(dst, i > 0), m.key...), ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}')
}

// opaque reads a value that encodes itself.
func (d *decoder) opaque(dst []byte, t *wireType) []byte {
	data := d.bytes()
	var at time.Time
	if t.name == "Time" && at.UnmarshalBinary(data) == nil {
		if text, err := at.MarshalJSON(); err == nil {
			return append(dst, text...)
		}
	}
	return d.marshal(dst, data)
}
