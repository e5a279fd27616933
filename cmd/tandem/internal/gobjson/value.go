package gobjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Value returns the Go value of a JSON text, for gob to encode. It has the types that the text
// says, and the receiver's must be the same:
//
//   - An object is a struct. Its members are the fields, by their Go names; null is no field.
//   - A number is an int, or a float64 if it has a fraction or an exponent, as 7.0 has.
//   - A string is a string, true and false are bools, an array is a slice.
//   - What JSON has no notation for is an object with one member, the name of the type:
//     {"uint":7}, {"float":7}, {"bytes":"base64"}, {"map":{"key":7}}.
//
// Elements of an array have one type; objects in it may leave out fields that others have.
func Value(text []byte) (any, error) {
	if !json.Valid(text) {
		return nil, fmt.Errorf("%.60q is not JSON", text)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var tree any
	if err := in.Decode(&tree); err != nil {
		return nil, err
	}
	s, err := shapeOf(tree)
	if err != nil {
		return nil, err
	}
	t := s.goType()
	if t == nil {
		return nil, fmt.Errorf("%.60s has no type, which gob needs: leave the argument out, or give the array an element", text)
	}
	v := reflect.New(t).Elem()
	if err := fill(v, tree); err != nil {
		return nil, err
	}
	return v.Interface(), nil
}

// shape is the type of a JSON value, as far as the value says; nil for null.
type shape struct {
	kind   reflect.Kind      // Uint8 for bytes
	fields map[string]*shape // of a struct
	elem   *shape            // of a slice or a map; nil if it has no elements
}

// names are what errors call the kinds.
var names = map[reflect.Kind]string{
	reflect.Bool: "a bool", reflect.String: "a string", reflect.Int64: "an int", reflect.Uint64: "a uint",
	reflect.Float64: "a float", reflect.Uint8: "bytes", reflect.Slice: "an array", reflect.Struct: "a struct",
	reflect.Map: "a map",
}

// shapeOf returns the shape of a decoded JSON value.
func shapeOf(tree any) (*shape, error) {
	switch v := tree.(type) {
	case nil:
		return nil, nil
	case bool:
		return &shape{kind: reflect.Bool}, nil
	case string:
		return &shape{kind: reflect.String}, nil
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return &shape{kind: reflect.Float64}, nil
		}
		return &shape{kind: reflect.Int64}, nil
	case []any:
		return collection(reflect.Slice, slices.Values(v))
	}
	members, _ := tree.(map[string]any)
	if kind, inner, ok := typed(members); ok {
		return shapeOfTyped(kind, inner)
	}
	s := &shape{kind: reflect.Struct, fields: make(map[string]*shape)}
	for name, v := range members {
		if !token.IsExported(name) || !token.IsIdentifier(name) {
			return nil, fmt.Errorf("%q can't be a field: an object is a Go struct, whose fields begin with a capital letter; write a map as {\"map\":{…}}", name)
		}
		var err error
		if s.fields[name], err = shapeOf(v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}

// typed returns the kind and the value of an object that is not a struct: its one member names
// its type.
func typed(members map[string]any) (kind reflect.Kind, inner any, ok bool) {
	for name, v := range members {
		kind, ok = map[string]reflect.Kind{
			"uint": reflect.Uint64, "float": reflect.Float64, "bytes": reflect.Uint8, "map": reflect.Map}[name]
		inner = v
	}
	return kind, inner, ok && len(members) == 1
}

func shapeOfTyped(kind reflect.Kind, inner any) (*shape, error) {
	switch v := inner.(type) {
	case map[string]any:
		if kind == reflect.Map {
			return collection(kind, maps.Values(v))
		}
	case json.Number:
		if kind == reflect.Uint64 || kind == reflect.Float64 {
			return &shape{kind: kind}, nil
		}
	case string:
		if kind == reflect.Uint8 {
			return &shape{kind: kind}, nil
		}
	}
	text, err := json.Marshal(inner)
	return nil, errors.Join(fmt.Errorf("%.60s is not %s", text, names[kind]), err)
}

// collection returns the shape of a slice or a map with these elements.
func collection(kind reflect.Kind, elements func(func(any) bool)) (*shape, error) {
	s := &shape{kind: kind}
	for v := range elements {
		elem, err := shapeOf(v)
		if err != nil {
			return nil, err
		}
		if s.elem, err = merge(s.elem, elem); err != nil {
			return nil, fmt.Errorf("elements of two types: %w", err)
		}
	}
	return s, nil
}

// merge returns the shape that a value of either shape fits.
func merge(a, b *shape) (*shape, error) {
	switch {
	case a == nil:
		return b, nil
	case b == nil:
		return a, nil
	case a.kind == reflect.Int64 && b.kind == reflect.Float64:
		return b, nil
	case a.kind == reflect.Float64 && b.kind == reflect.Int64:
		return a, nil
	case a.kind != b.kind:
		return nil, fmt.Errorf("%s and %s", names[a.kind], names[b.kind])
	}
	var err error
	for name, field := range b.fields {
		if a.fields[name], err = merge(a.fields[name], field); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	a.elem, err = merge(a.elem, b.elem)
	return a, err
}

// goType returns the Go type of a shape, or nil if the text did not say it.
func (s *shape) goType() reflect.Type {
	if s == nil {
		return nil
	}
	switch s.kind {
	case reflect.Bool:
		return reflect.TypeFor[bool]()
	case reflect.String:
		return reflect.TypeFor[string]()
	case reflect.Int64:
		return reflect.TypeFor[int64]()
	case reflect.Uint64:
		return reflect.TypeFor[uint64]()
	case reflect.Float64:
		return reflect.TypeFor[float64]()
	case reflect.Uint8:
		return reflect.TypeFor[[]byte]()
	case reflect.Struct:
		var fields []reflect.StructField
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			if t := s.fields[name].goType(); t != nil {
				fields = append(fields, reflect.StructField{Name: name, Type: t})
			}
		}
		return reflect.StructOf(fields)
	}
	elem := s.elem.goType()
	switch {
	case elem == nil:
		return nil
	case s.kind == reflect.Map:
		return reflect.MapOf(reflect.TypeFor[string](), elem)
	}
	return reflect.SliceOf(elem)
}

// fill sets v, which has the type of a shape that tree fits.
func fill(v reflect.Value, tree any) error {
	if members, is := tree.(map[string]any); is {
		if _, inner, ok := typed(members); ok {
			tree = inner
		}
	}
	switch x := tree.(type) {
	case bool:
		v.SetBool(x)
	case string:
		return fillText(v, x)
	case json.Number:
		return fillNumber(v, x)
	case []any:
		v.Set(reflect.MakeSlice(v.Type(), len(x), len(x)))
		for i, element := range x {
			if err := fill(v.Index(i), element); err != nil {
				return err
			}
		}
	case map[string]any:
		return fillMembers(v, x)
	}
	return nil
}

func fillText(v reflect.Value, text string) error {
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("bytes: %w", err)
	}
	v.SetBytes(data)
	return nil
}

func fillNumber(v reflect.Value, n json.Number) error {
	if err := json.Unmarshal([]byte(n), v.Addr().Interface()); err != nil {
		return fmt.Errorf("%s is no %s", n, v.Type())
	}
	return nil
}

// fillMembers sets the fields of a struct, or the elements of a map.
func fillMembers(v reflect.Value, members map[string]any) error {
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(members)))
	}
	for name, member := range members {
		var err error
		switch {
		case v.Kind() == reflect.Map:
			elem := reflect.New(v.Type().Elem()).Elem()
			err = fill(elem, member)
			v.SetMapIndex(reflect.ValueOf(name), elem)
		case v.FieldByName(name).IsValid():
			err = fill(v.FieldByName(name), member)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
