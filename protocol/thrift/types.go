package thrift

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apache "github.com/apache/thrift/lib/go/thrift"
)

// types caches what is known of struct types.
type types struct {
	structs sync.Map // reflect.Type to *layout
	sizes   sync.Map // reflect.Type to int64, see largestOf
}

// largestOf returns the size of the largest struct of which a value of generated type t may
// contain many, in lists, sets and maps. Generated code allocates these structs, so it is not
// known which of them it allocates.
func (ts *types) largestOf(t reflect.Type) int64 {
	if n, ok := ts.sizes.Load(t); ok {
		return n.(int64) //nolint:forcetypeassert // nothing else is stored
	}
	n := largest(t, false, map[place]bool{})
	ts.sizes.Store(t, n)
	return n
}

// place is a type, and whether it occurs inside a container.
type place struct {
	t    reflect.Type
	many bool
}

func largest(t reflect.Type, many bool, seen map[place]bool) (n int64) {
	if seen[place{t, many}] {
		return 0
	}
	seen[place{t, many}] = true
	switch t.Kind() {
	case reflect.Pointer:
		return largest(t.Elem(), many, seen)
	case reflect.Slice, reflect.Array:
		return largest(t.Elem(), true, seen)
	case reflect.Map:
		return max(largest(t.Key(), true, seen), largest(t.Elem(), true, seen))
	case reflect.Struct:
		if many {
			n = sizeOf(t)
		}
		for f := range t.Fields() {
			if f.Type.Kind() == reflect.Pointer && many && f.Type.Elem().Kind() != reflect.Struct {
				n += max(8, sizeOf(f.Type.Elem())) // an optional value is allocated apart
			}
		}
		for f := range t.Fields() {
			n = max(n, largest(f.Type, many, seen))
		}
	}
	return n
}

func sizeOf(t reflect.Type) int64 { return int64(t.Size()) } //nolint:gosec // a type's size

// layout is what the tags of a struct declare.
type layout struct {
	fields []field // in the order of their numbers
	err    error   // why the struct has no layout
}

// field is one field: `thrift:"name,1"`, where "required", "optional" or "set" may follow
// the number.
type field struct {
	name     string
	id       int16
	index    int // index of the field in the Go struct
	kind     apache.TType
	required bool
}

var (
	generatedType = reflect.TypeFor[apache.TStruct]()
	enumType      = reflect.TypeFor[encoding.TextMarshaler]()
	uuidType      = reflect.TypeFor[apache.Tuuid]()
	errorType     = reflect.TypeFor[error]()
)

// isGenerated reports whether pointers to t encode and decode themselves.
func isGenerated(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(generatedType)
}

// layoutOf returns the layout of a struct.
func (ts *types) layoutOf(t reflect.Type) (*layout, error) {
	known, ok := ts.structs.Load(t)
	if !ok {
		l := &layout{}
		l.fields, l.err = fieldsOf(t)
		known, _ = ts.structs.LoadOrStore(t, l)
	}
	l := known.(*layout)
	return l, l.err
}

func fieldsOf(t reflect.Type) ([]field, error) {
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, ok := sf.Tag.Lookup("thrift")
		if !ok {
			continue
		}
		f, err := parseTag(tag, sf)
		if err != nil {
			return nil, fmt.Errorf("field %s of %v: %w", sf.Name, t, err)
		}
		f.index = i
		fields = append(fields, f)
	}
	slices.SortFunc(fields, func(a, b field) int { return int(a.id) - int(b.id) })
	for i := range len(fields) - 1 {
		if fields[i].id == fields[i+1].id {
			return nil, fmt.Errorf("%v has two fields with the number %d", t, fields[i].id)
		}
	}
	if len(fields) == 0 && t.NumField() > 0 {
		return nil, fmt.Errorf(`%v has no tags like thrift:"name,1"`, t)
	}
	return fields, nil
}

func parseTag(tag string, sf reflect.StructField) (f field, err error) {
	parts := strings.Split(tag, ",")
	if len(parts) < 2 || !sf.IsExported() {
		return f, fmt.Errorf(`%q is no tag like thrift:"name,1" of an exported field`, tag)
	}
	id, err := strconv.ParseInt(parts[1], 10, 16)
	if err != nil {
		return f, err
	}
	f.name, f.id = parts[0], int16(id)
	if f.kind, err = kindOf(sf.Type); err != nil {
		return f, err
	}
	for _, word := range parts[2:] {
		switch {
		case word == "required":
			f.required = true
		case word == "set" && f.kind == apache.LIST:
			f.kind = apache.SET
		case word == "optional" || word == "default":
		default:
			return f, fmt.Errorf("%q in a tag; required, optional and, for a slice, set can be", word)
		}
	}
	return f, nil
}

// simple maps the kinds that have one Thrift type each.
var simple = map[reflect.Kind]apache.TType{
	reflect.Bool: apache.BOOL, reflect.Int8: apache.BYTE, reflect.Uint8: apache.BYTE, reflect.Int16: apache.I16,
	reflect.Int32: apache.I32, reflect.Int64: apache.I64, reflect.Int: apache.I64, reflect.Float32: apache.DOUBLE,
	reflect.Float64: apache.DOUBLE, reflect.String: apache.STRING, reflect.Struct: apache.STRUCT,
}

// kindOf returns the Thrift type that values of t are written as.
func kindOf(t reflect.Type) (apache.TType, error) {
	if kind, ok := simple[t.Kind()]; ok {
		if kind == apache.I64 && t.Implements(enumType) { // generated enums do
			kind = apache.I32
		}
		return kind, nil
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return apache.STRING, nil
		}
		return apache.LIST, nil
	case reflect.Map:
		if isSet(t) {
			return apache.SET, nil
		}
		return apache.MAP, nil
	case reflect.Pointer:
		if t.Elem().Kind() != reflect.Pointer {
			return kindOf(t.Elem())
		}
	case reflect.Array:
		if t == uuidType {
			return apache.UUID, nil
		}
	}
	return apache.STOP, fmt.Errorf("no type of Thrift's holds a %v", t)
}

// isSet reports whether maps of type t are sets.
func isSet(t reflect.Type) bool { return t.Elem() == reflect.TypeFor[struct{}]() }

// isList reports whether a sole argument of type t is the list of a method's parameters,
// and not the first of them: in generated code only lists have such names.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasSuffix(t.Name(), "Args")
}

// declaration is what [WithMethod] declares of a method.
type declaration struct {
	args, result reflect.Type // struct types; nil for a side that is not declared
	parameters   []field      // fields of args
	success      *field       // field 0 of result; nil for a void method
	exceptions   []field      // the other fields of result
	err          error        // why calls of the method fail
}

func declare(ts *types, args, result any) *declaration {
	d := &declaration{}
	var l *layout
	if d.args, l, d.err = structOf(ts, args); l != nil {
		d.parameters = l.fields
	}
	var err error
	if d.result, l, err = structOf(ts, result); l != nil {
		err = d.takeResult(l)
	}
	d.err = errors.Join(d.err, err)
	return d
}

func structOf(ts *types, v any) (reflect.Type, *layout, error) {
	if v == nil {
		return nil, nil, nil
	}
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, nil, fmt.Errorf("WithMethod takes structs, not a %v", t)
	}
	l, err := ts.layoutOf(t)
	if err != nil {
		return nil, nil, err
	}
	return t, l, nil
}

func (d *declaration) takeResult(l *layout) error {
	for i, f := range l.fields {
		if f.id == 0 {
			d.success = &l.fields[i]
			continue
		}
		if t := d.result.Field(f.index).Type; t.Kind() != reflect.Pointer || !t.Implements(errorType) {
			return fmt.Errorf("field %s of %v is no pointer to an exception", f.name, d.result)
		}
		d.exceptions = append(d.exceptions, f)
	}
	return nil
}
