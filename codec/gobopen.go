package codec

import (
	"fmt"
	"reflect"
)

// gobOpenEncoder encodes one value that has interfaces inside. By default gob
// describes the type of the value in an interface when it reaches it, in the middle
// of the whole value. So the values in interfaces are encoded first, the innermost
// before others, each type once, and only the type descriptions are kept of that.
type gobOpenEncoder struct {
	*gobEncoder
	codec     *gobCodec
	described map[reflect.Type]bool
}

func (c *gobCodec) appendOpen(dst []byte, v any) ([]byte, error) {
	e := gobOpenEncoder{newGobEncoder(), c, make(map[reflect.Type]bool)}
	e.out.b = dst
	rv := reflect.ValueOf(v)
	if err := e.visit(rv, 0); err != nil {
		return dst, err
	}
	if err := e.enc.EncodeValue(rv); err != nil {
		return dst, err
	}
	return e.out.b, nil
}

// visit describes the types of the values in interfaces inside v.
func (e *gobOpenEncoder) visit(v reflect.Value, depth int) error {
	if !v.IsValid() {
		return nil
	}
	if t := e.codec.typeOf(v.Type()); t.closed || t.refused != nil {
		return t.refused
	}
	if depth > 2*MaxDepth { // pointers count here, but not when it is decoded
		return fmt.Errorf("gob: nested deeper than %d, or without end", MaxDepth)
	}
	switch v.Kind() {
	case reflect.Interface:
		return e.describe(v.Elem(), depth+1)
	case reflect.Pointer:
		return e.visit(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return e.visitElements(v, depth+1)
	case reflect.Map:
		return e.visitMap(v, depth+1)
	case reflect.Struct:
		return e.visitFields(v, depth+1)
	}
	return nil
}

func (e *gobOpenEncoder) visitElements(v reflect.Value, depth int) error {
	for i := range v.Len() {
		if err := e.visit(v.Index(i), depth); err != nil {
			return err
		}
	}
	return nil
}

func (e *gobOpenEncoder) visitMap(v reflect.Value, depth int) error {
	for it := v.MapRange(); it.Next(); {
		if err := e.visit(it.Key(), depth); err != nil {
			return err
		}
		if err := e.visit(it.Value(), depth); err != nil {
			return err
		}
	}
	return nil
}

func (e *gobOpenEncoder) visitFields(v reflect.Value, depth int) error {
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if err := e.visit(v.Field(i), depth); err != nil {
			return err
		}
	}
	return nil
}

// describe makes the encoder describe the type of v, the value in an interface. A nil
// is left to gob, which refuses it if it has a type.
func (e *gobOpenEncoder) describe(v reflect.Value, depth int) error {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	if err := e.visit(v, depth); err != nil || e.described[v.Type()] {
		return err
	}
	e.described[v.Type()] = true
	before := len(e.out.b)
	if err := e.enc.EncodeValue(v); err != nil {
		return err
	}
	n, err := gobPrefix(e.out.b[before:])
	e.out.b = e.out.b[:before+n]
	return err
}
