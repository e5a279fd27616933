package triple

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem/codec"
)

// encode encodes one value as Hessian 2.0, of a limited size. Every occurrence of a
// pointer's target is encoded separately, without references. A value whose parts occur
// many times, such as one decoded from references, may therefore be small in a request and
// larger than memory here.
func encode(value any, most int64) ([]byte, error) {
	e := &encoder{most: most}
	err := e.value(reflect.ValueOf(value))
	if err == nil && e.full() {
		err = errTooLong
	}
	return e.dst, err
}

type encoder struct {
	dst     []byte
	most    int64 // bytes; limit of dst
	depth   int
	classes []string // names of the classes that have been described
}

// full reports whether there are more bytes than allowed.
func (e *encoder) full() bool { return int64(len(e.dst)) > e.most }

func (e *encoder) put(tag byte, rest ...byte) { e.dst = append(append(e.dst, tag), rest...) }

func (e *encoder) value(v reflect.Value) error {
	if e.full() {
		return errTooLong
	}
	for range codec.MaxDepth { // a pointer may point to itself
		if k := v.Kind(); k != reflect.Pointer && k != reflect.Interface {
			break
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		e.put('N')
	case reflect.Bool:
		e.put(map[bool]byte{true: 'T', false: 'F'}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32:
		e.integer(v.Int())
	case reflect.Int64:
		e.long(v.Int())
	case reflect.Uint8, reflect.Uint16:
		e.integer(int64(v.Uint())) //nolint:gosec // it fits
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return e.unsigned(v)
	case reflect.Float32, reflect.Float64:
		e.dst = binary.BigEndian.AppendUint64(append(e.dst, 'D'), math.Float64bits(v.Float()))
	case reflect.String:
		e.string(v)
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		return e.compound(v)
	default:
		return fmt.Errorf("%v has no form in Java", v.Type())
	}
	return nil
}

// compound writes a value that may have parts.
func (e *encoder) compound(v reflect.Value) error {
	switch kind := v.Kind(); {
	case (kind == reflect.Slice || kind == reflect.Map) && v.IsNil():
		e.put('N')
		return nil
	case kind == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		e.bytes(v.Bytes())
		return nil
	case kind == reflect.Struct && v.Type().ConvertibleTo(reflect.TypeFor[time.Time]()):
		e.date(v.Convert(reflect.TypeFor[time.Time]()).Interface().(time.Time))
		return nil
	case kind == reflect.Struct:
		return e.down(v, (*encoder).record)
	case kind == reflect.Map:
		return e.down(v, (*encoder).entries)
	}
	return e.down(v, (*encoder).list)
}

// down writes a value one level deeper.
func (e *encoder) down(v reflect.Value, write func(*encoder, reflect.Value) error) error {
	if e.depth++; e.depth > codec.MaxDepth {
		return errTooDeep
	}
	defer func() { e.depth-- }()
	return write(e, v)
}

// These errors do not name the place: its name would be as long as the value is deep.
var (
	errTooDeep = fmt.Errorf("nested deeper than %d", codec.MaxDepth)
	errTooLong = errors.New("it has too many bytes")
)

// within adds the place to an error.
func within(what, name string, err error) error {
	if err == nil || errors.Is(err, errTooDeep) || errors.Is(err, errTooLong) {
		return err
	}
	return fmt.Errorf("%s %.100q: %w", what, name, err)
}

// className returns the Java class that a value names, "" for none.
func className(v reflect.Value) string {
	if c, ok := reflect.TypeAssert[Class](v); ok {
		return c.JavaClassName()
	}
	if c, ok := reflect.TypeAssert[Class](reflect.New(v.Type())); ok { // the pointer has the method
		return c.JavaClassName()
	}
	return ""
}

// integer writes a Java int, or a long if n needs more than 32 bits.
func (e *encoder) integer(n int64) {
	switch {
	case n != int64(int32(n)): //nolint:gosec // the comparison checks it
		e.long(n)
	case n >= -16 && n < 48:
		e.put(byte(n + 0x90))
	default:
		e.dst = binary.BigEndian.AppendUint32(append(e.dst, 'I'), uint32(n)) //nolint:gosec // it fits
	}
}

func (e *encoder) long(n int64) {
	if n >= -8 && n < 16 {
		e.put(byte(n + 0xe0))
		return
	}
	e.dst = binary.BigEndian.AppendUint64(append(e.dst, 'L'), uint64(n)) //nolint:gosec // the same bits
}

func (e *encoder) unsigned(v reflect.Value) error {
	n := v.Uint()
	switch {
	case n > math.MaxInt64:
		return fmt.Errorf("the number %d does not fit into Java's long", n)
	case v.Kind() == reflect.Uint:
		e.integer(int64(n))
	default:
		e.long(int64(n))
	}
	return nil
}

// date writes a time; the zero time is null.
func (e *encoder) date(at time.Time) {
	if at.IsZero() {
		e.put('N')
		return
	}
	e.dst = binary.BigEndian.AppendUint64(append(e.dst, 'J'), uint64(at.UnixMilli()))
}

// Sizes of the pieces of strings, in UTF-16 units, and of byte slices, in bytes.
const (
	longestText  = 0x7fff
	longestBytes = 0xffff
)

func (e *encoder) bytes(b []byte) {
	for len(b) > longestBytes {
		e.put('A', longestBytes>>8, longestBytes&0xff)
		e.dst, b = append(e.dst, b[:longestBytes]...), b[longestBytes:]
	}
	e.put('B', byte(len(b)>>8), byte(len(b)&0xff)) //nolint:gosec // it has 16 bits
	e.dst = append(e.dst, b...)
}

// string writes a string, or an enum constant if its type names a class.
func (e *encoder) string(v reflect.Value) {
	if class := className(v); class != "" {
		e.object(class, []string{"name"})
	}
	e.text(v.String())
}

func (e *encoder) text(s string) {
	for {
		n, size := 0, 0 // units, bytes
		for _, r := range s {
			if n+2 > longestText {
				break
			}
			n += max(1, utf16.RuneLen(r))
			size += max(1, runeBytes(s[size:]))
		}
		last := size == len(s)
		tag := byte('R')
		if last {
			tag = 'S'
		}
		e.put(tag, byte(n>>8), byte(n&0xff))
		for _, r := range s[:size] {
			e.rune(r)
		}
		if last {
			return
		}
		s = s[size:]
	}
}

func runeBytes(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// rune writes a character; one beyond the first 65,536 as two surrogates.
func (e *encoder) rune(r rune) {
	high, low := utf16.EncodeRune(r)
	if high == utf8.RuneError {
		e.dst = utf8.AppendRune(e.dst, r)
		return
	}
	for _, half := range []rune{high, low} {
		e.put(0xe0|byte(half>>12), 0x80|byte(half>>6&0x3f), 0x80|byte(half&0x3f)) //nolint:gosec // it has 16 bits
	}
}

func (e *encoder) list(v reflect.Value) error {
	e.put('X')
	e.integer(int64(v.Len()))
	for i := range v.Len() {
		if err := e.value(v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) entries(v reflect.Value) error {
	e.put('H')
	for entries := v.MapRange(); entries.Next(); {
		if err := e.value(entries.Key()); err != nil {
			return err
		}
		if err := e.value(entries.Value()); err != nil {
			return err
		}
	}
	e.put('Z')
	return nil
}

// record writes a struct: an object if it has a class, else a map, which Java accepts for
// an object whose class it knows from the method.
func (e *encoder) record(v reflect.Value) error {
	class, known := className(v), fieldsOf(v.Type())
	if class == "" {
		e.put('H')
	} else {
		names := make([]string, len(known.list))
		for i, f := range known.list {
			names[i] = f.name
		}
		e.object(class, names)
	}
	for _, f := range known.list {
		if class == "" {
			e.text(f.name)
		}
		if err := e.value(v.FieldByIndex(f.index)); err != nil {
			return within("field", f.name, err)
		}
	}
	if class == "" {
		e.put('Z')
	}
	return nil
}

// object begins an object, after the description of its class if that is the first one.
func (e *encoder) object(class string, fields []string) {
	at := slices.Index(e.classes, class)
	if at < 0 {
		at = len(e.classes)
		e.classes = append(e.classes, class)
		e.put('C')
		e.text(class)
		e.integer(int64(len(fields)))
		for _, f := range fields {
			e.text(f)
		}
	}
	e.put('O')
	e.integer(int64(at))
}
