package triple

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// assign sets v to a value without parts, if it fits.
func assign(v reflect.Value, x any) error {
	v = settle(v)
	from := reflect.ValueOf(x)
	if v.Kind() == reflect.Interface {
		return set(v, from)
	}
	switch x := x.(type) {
	case int32:
		return assignInteger(v, int64(x))
	case int64:
		return assignInteger(v, x)
	case float64:
		if v.CanFloat() {
			v.SetFloat(x)
			return nil
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(x)
			return nil
		}
	case string:
		if v.Kind() == reflect.String {
			v.SetString(x)
			return nil
		}
	case []byte:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(x)
			return nil
		}
	case time.Time:
		if from.Type().ConvertibleTo(v.Type()) {
			v.Set(from.Convert(v.Type()))
			return nil
		}
	}
	return fmt.Errorf("%T does not fit into %v", x, v.Type())
}

func assignInteger(v reflect.Value, n int64) error {
	switch {
	case v.CanInt() && !v.OverflowInt(n):
		v.SetInt(n)
	case v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)):
		v.SetUint(uint64(n))
	case v.CanFloat():
		v.SetFloat(float64(n))
	default:
		return fmt.Errorf("the number %d does not fit into %v", n, v.Type())
	}
	return nil
}

// set sets an interface to a value.
func set(v, from reflect.Value) error {
	if !from.Type().AssignableTo(v.Type()) {
		return fmt.Errorf("%v does not fit into %v", from.Type(), v.Type())
	}
	v.Set(from)
	return nil
}

// fields are the fields of a struct that are sent and received, by their Java names.
type fields struct {
	list   []field
	byName map[string]int
}

type field struct {
	name  string
	index []int
}

var knownFields sync.Map // from reflect.Type to fields; bounded by the types of the program

func fieldsOf(t reflect.Type) fields {
	if f, ok := knownFields.Load(t); ok {
		return f.(fields)
	}
	f := fields{byName: map[string]int{}}
	for _, sf := range reflect.VisibleFields(t) {
		name := javaName(sf)
		if name == "-" || !sf.IsExported() || sf.Anonymous || throughPointer(t, sf.Index) {
			continue
		}
		f.byName[name] = len(f.list)
		f.list = append(f.list, field{name, sf.Index})
	}
	known, _ := knownFields.LoadOrStore(t, f)
	return known.(fields)
}

// throughPointer reports whether a field is inside an embedded pointer, which may be nil.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// javaName returns the tag "hessian", or the name with its first letter in lower case.
func javaName(f reflect.StructField) string {
	if tag, ok := f.Tag.Lookup("hessian"); ok {
		return tag
	}
	return lowerFirst(f.Name)
}

func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}

func upperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// units builds a string from UTF-16 units, each encoded as UTF-8.
type units struct {
	b    strings.Builder
	high rune // a high surrogate, which a low one must follow
}

// add processes the unit at the beginning of src, and returns its size in bytes and in
// units.
func (t *units) add(src []byte) (used, size int, err error) {
	r, used := utf8.DecodeRune(src)
	size = 1
	switch {
	case used == 0:
		return 0, 0, errShort
	case r == utf8.RuneError && used == 1:
		if r, used = surrogate(src); used == 0 {
			return 0, 0, errors.New("a string that is no UTF-8")
		}
	case r > 0xffff:
		size = 2
	}
	switch {
	case t.high != 0 && r >= 0xdc00 && r < 0xe000:
		t.b.WriteRune((t.high-0xd800)<<10 | (r - 0xdc00) + 0x10000)
		t.high = 0
		return used, size, nil
	case t.high != 0:
		t.b.WriteRune(utf8.RuneError)
		t.high = 0
	}
	if r >= 0xd800 && r < 0xdc00 {
		t.high = r
		return used, size, nil
	}
	t.b.WriteRune(r) // a surrogate alone is not a character
	return used, size, nil
}

// surrogate decodes a surrogate, three bytes that Go's UTF-8 decoder rejects.
func surrogate(src []byte) (rune, int) {
	if len(src) < 3 || src[0] != 0xed || src[1]&0xe0 != 0xa0 || src[2]&0xc0 != 0x80 {
		return 0, 0
	}
	return 0xd000 | rune(src[1]&0x3f)<<6 | rune(src[2]&0x3f), 3
}

func (t *units) string() string {
	if t.high != 0 {
		t.high = 0
		t.b.WriteRune(utf8.RuneError)
	}
	return t.b.String()
}
