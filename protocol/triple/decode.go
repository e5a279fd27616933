package triple

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"time"

	"github.com/tandem-rpc/tandem/codec"
)

// decode decodes one value of Hessian 2.0 into the target of a pointer
// (http://hessian.caucho.com/doc/hessian-serialization.html). Values are decoded directly,
// without an intermediate tree, and memory for a length is taken only as bytes arrive.
// expect reserves the memory of values before they are allocated; nil for no limit.
func decode(src []byte, target any, expect func(n int64) error) error {
	v := reflect.ValueOf(target)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("can't decode into %T: want a pointer", target)
	}
	d := &decoder{src: src, expect: expect}
	if err := d.value(v.Elem()); err != nil {
		return fmt.Errorf("at byte %d: %w", d.pos, err)
	}
	if d.pos != len(src) {
		return fmt.Errorf("%d bytes follow the value", len(src)-d.pos)
	}
	return nil
}

// decoder reads the values of one message.
type decoder struct {
	src     []byte
	pos     int
	depth   int
	classes []class
	types   int       // the number of type names so far
	refs    []earlier // lists, maps and objects that references may mean, in order

	expect  func(n int64) error
	pending int64 // bytes that expect has not reserved yet
}

// chargeStep is how many bytes are collected before expect is called.
const chargeStep = 16 << 10

// charge reserves n bytes of memory.
func (d *decoder) charge(n int64) error {
	if d.pending += n; d.expect == nil || d.pending < chargeStep {
		return nil
	}
	n, d.pending = d.pending, 0
	return d.expect(n)
}

// Sizes of values besides the place that holds them, in bytes.
const (
	boxSize   = 16 // a value in an interface
	mapSize   = 48
	mapFirst  = 8  // entries that a new map has room for
	container = 48 // the record of a list, a map or an object
	classSize = 64
)

// far returns the bytes that pointers of a type allocate.
func far(t reflect.Type) (n int64) {
	for i := 0; t.Kind() == reflect.Pointer && i < codec.MaxDepth; i++ { // a type may point to itself
		t = t.Elem()
		n += max(8, sizeOf(t))
	}
	if t.Kind() == reflect.Interface {
		n += boxSize
	}
	return n
}

func sizeOf(t reflect.Type) int64 { return int64(t.Size()) } //nolint:gosec // a type's size

// class is the description of a class, which comes before its first object.
type class struct {
	name   string
	fields []string
}

var errShort = io.ErrUnexpectedEOF

func (d *decoder) take(n int) ([]byte, error) {
	if n > len(d.src)-d.pos {
		return nil, errShort
	}
	b := d.src[d.pos : d.pos+n]
	d.pos += n
	return b, nil
}

// number reads n bytes of an integer that begins with high.
func (d *decoder) number(high int64, n int) (int64, error) {
	b, err := d.take(n)
	for _, c := range b {
		high = high<<8 | int64(c)
	}
	return high, err
}

func (d *decoder) tag() (byte, error) {
	b, err := d.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// value reads the next value into v.
func (d *decoder) value(v reflect.Value) error {
	tag, err := d.tag()
	if err != nil {
		return err
	}
	for tag == 'C' { // class descriptions come before the first object
		if err := d.describe(); err != nil {
			return err
		}
		if tag, err = d.tag(); err != nil {
			return err
		}
	}
	if tag == 'N' {
		v.SetZero()
		return nil
	}
	if err := d.charge(far(v.Type())); err != nil {
		return err
	}
	if tag == 'Q' {
		return d.reference(v)
	}
	if isContainer(tag) {
		if d.depth++; d.depth > codec.MaxDepth {
			return errTooDeep
		}
		defer func() { d.depth-- }()
		return d.container(tag, v)
	}
	start := d.pos
	x, err := d.scalar(tag)
	if err == nil {
		err = d.charge(int64(d.pos - start))
	}
	if err != nil {
		return err
	}
	return assign(v, x)
}

// scalar reads a value without parts: a bool, int64, float64, string, []byte or
// [time.Time]. An integer of 32 bits is an int32.
func (d *decoder) scalar(tag byte) (any, error) {
	switch {
	case tag == 'T' || tag == 'F':
		return tag == 'T', nil
	case tag < 0x20 || isOneOf(tag, 0x30, 4) || isOneOf(tag, 'R', 2):
		return d.text(tag)
	case tag < 0x30 || isOneOf(tag, 0x34, 4) || isOneOf(tag, 'A', 2):
		return d.bytes(tag)
	case isOneOf(tag, 'J', 2):
		return d.date(tag)
	case tag == 'D' || isOneOf(tag, 0x5b, 5):
		return d.double(tag)
	}
	return d.integer(tag)
}

// date reads a time in milliseconds or minutes.
func (d *decoder) date(tag byte) (any, error) {
	if tag == 'J' {
		ms, err := d.number(0, 8)
		return time.UnixMilli(ms).UTC(), err
	}
	minutes, err := d.number(0, 4)
	return time.Unix(int64(int32(minutes))*60, 0).UTC(), err //nolint:gosec // it has 32 bits
}

// isOneOf reports whether a tag is one of n from first on.
func isOneOf(tag, first, n byte) bool { return tag >= first && tag-first < n }

func (d *decoder) integer(tag byte) (any, error) {
	t := int64(tag)
	var n int64
	var err error
	switch {
	case isOneOf(tag, 0x80, 64):
		n = t - 0x90
	case isOneOf(tag, 0xc0, 16):
		n, err = d.number(t-0xc8, 1)
	case isOneOf(tag, 0xd0, 8):
		n, err = d.number(t-0xd4, 2)
	case tag == 'I':
		n, err = d.number(0, 4)
	default:
		return d.long(tag)
	}
	return int32(n), err //nolint:gosec // it has at most 32 bits
}

func (d *decoder) long(tag byte) (any, error) {
	t := int64(tag)
	switch {
	case tag == 'L':
		return d.number(0, 8)
	case tag == 'Y':
		n, err := d.number(0, 4)
		return int64(int32(n)), err //nolint:gosec // it has 32 bits
	case isOneOf(tag, 0x38, 8):
		return d.number(t-0x3c, 2)
	case tag >= 0xf0:
		return d.number(t-0xf8, 1)
	case tag >= 0xd8:
		return t - 0xe0, nil
	}
	return nil, fmt.Errorf("0x%02x begins no value", tag)
}

func (d *decoder) double(tag byte) (any, error) {
	switch tag {
	case 0x5b:
		return 0.0, nil
	case 0x5c:
		return 1.0, nil
	case 0x5d:
		n, err := d.number(0, 1)
		return float64(int8(n)), err //nolint:gosec // it has 8 bits
	case 0x5e:
		n, err := d.number(0, 2)
		return float64(int16(n)), err //nolint:gosec // it has 16 bits
	case 0x5f:
		n, err := d.number(0, 4)
		return float64(int32(n)) / 1000, err //nolint:gosec // it has 32 bits
	}
	b, err := d.take(8)
	if err != nil {
		return nil, err
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
}

// tags are the tags of the pieces of a string or of bytes: short is the first of shorts
// tags that contain the length, medium the first of those that contain a part of it, and
// more and last are followed by two bytes of length.
type tags struct{ short, shorts, medium, more, last byte }

var (
	textTags  = tags{0, 0x20, 0x30, 'R', 'S'}
	bytesTags = tags{0x20, 0x10, 0x34, 'A', 'B'}
)

// chunks reads the pieces of a string or of bytes.
func (d *decoder) chunks(tag byte, t tags, piece func(n int) error) error {
	for {
		var n int64
		var err error
		switch {
		case tag == t.more || tag == t.last:
			n, err = d.number(0, 2)
		case isOneOf(tag, t.medium, 4):
			n, err = d.number(int64(tag-t.medium), 1)
		case isOneOf(tag, t.short, t.shorts):
			n = int64(tag - t.short)
		default:
			return fmt.Errorf("0x%02x continues no string and no bytes", tag)
		}
		if err != nil {
			return err
		}
		if err := piece(int(n)); err != nil || tag != t.more {
			return err
		}
		if tag, err = d.tag(); err != nil {
			return err
		}
	}
}

func (d *decoder) bytes(tag byte) ([]byte, error) {
	out := []byte{}
	err := d.chunks(tag, bytesTags, func(n int) error {
		b, err := d.take(n)
		out = append(out, b...)
		return err
	})
	return out, err
}

// text reads a string. Its length counts UTF-16 units, each encoded as UTF-8, so that a
// character beyond the first 65,536 has six bytes; a character of four bytes counts as two
// units.
func (d *decoder) text(tag byte) (string, error) {
	var t units
	err := d.chunks(tag, textTags, func(n int) error {
		for n > 0 {
			used, size, err := t.add(d.src[d.pos:])
			if err != nil {
				return err
			}
			d.pos += used
			n -= size
		}
		return nil
	})
	return t.string(), err
}

// name reads the name of a type, or the number of an earlier one. It is ignored: the method
// determines the type.
func (d *decoder) name() error {
	tag, err := d.tag()
	if err != nil {
		return err
	}
	x, err := d.scalar(tag)
	if err != nil {
		return err
	}
	switch x := x.(type) {
	case string:
		d.types++
		return nil
	case int32:
		if x >= 0 && int(x) < d.types {
			return nil
		}
	}
	return errors.New("bad name of a type")
}

// length reads the length of a value with at least one byte for each unit of length.
func (d *decoder) length() (int, error) {
	tag, err := d.tag()
	if err != nil {
		return 0, err
	}
	x, err := d.scalar(tag)
	if err != nil {
		return 0, err
	}
	n, ok := x.(int32)
	if !ok || n < 0 {
		return 0, errors.New("bad length")
	}
	if int(n) > len(d.src)-d.pos {
		return 0, errShort
	}
	return int(n), nil
}

// describe reads the description of a class.
func (d *decoder) describe() error {
	var c class
	if err := d.string(&c.name); err != nil {
		return err
	}
	if err := d.charge(classSize + int64(len(c.name))); err != nil {
		return err
	}
	n, err := d.length()
	if err != nil {
		return err
	}
	for range n {
		var field string
		if err := d.string(&field); err != nil {
			return err
		}
		if err := d.charge(2*boxSize + int64(len(field))); err != nil {
			return err
		}
		c.fields = append(c.fields, field)
	}
	d.classes = append(d.classes, c)
	return nil
}

func (d *decoder) string(s *string) error {
	tag, err := d.tag()
	if err != nil {
		return err
	}
	x, err := d.scalar(tag)
	if err != nil {
		return err
	}
	text, ok := x.(string)
	if !ok {
		return errors.New("want a string")
	}
	*s = text
	return nil
}
