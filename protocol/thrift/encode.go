package thrift

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	apache "github.com/apache/thrift/lib/go/thrift"
)

// encoder writes values by reflection, and generated types by their own code.
type encoder struct {
	*guard
	*types

	ctx context.Context //nolint:containedctx // Apache's functions need one; nothing here waits
}

// value writes v as Thrift type t.
func (e *encoder) value(t apache.TType, v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return fmt.Errorf("a nil %v, and Thrift has none in a container", v.Type())
		}
		v = v.Elem()
	}
	if isInt(v.Kind()) {
		return e.integer(t, v)
	}
	switch t {
	case apache.BOOL:
		return e.WriteBool(e.ctx, v.Bool())
	case apache.DOUBLE:
		return e.WriteDouble(e.ctx, v.Float())
	case apache.UUID:
		return e.WriteUUID(e.ctx, v.Interface().(apache.Tuuid))
	case apache.STRING:
		if v.Kind() == reflect.String {
			return e.WriteString(e.ctx, v.String())
		}
		return e.WriteBinary(e.ctx, v.Bytes())
	case apache.LIST, apache.SET:
		return e.elements(t, v)
	case apache.MAP:
		return e.mapping(v)
	}
	return e.structure(v)
}

// integer writes an integer.
func (e *encoder) integer(t apache.TType, v reflect.Value) error {
	if v.CanUint() {
		return e.WriteByte(e.ctx, int8(v.Uint())) //nolint:gosec // the same bits
	}
	n := v.Int()
	switch t {
	case apache.BYTE:
		return e.WriteByte(e.ctx, int8(n)) //nolint:gosec // of an int8
	case apache.I16:
		return e.WriteI16(e.ctx, int16(n)) //nolint:gosec // of an int16
	case apache.I32:
		if n < math.MinInt32 || n > math.MaxInt32 {
			return fmt.Errorf("%d is too large for i32, which enums are", n)
		}
		return e.WriteI32(e.ctx, int32(n))
	}
	return e.WriteI64(e.ctx, n)
}

// structure writes a struct.
func (e *encoder) structure(v reflect.Value) error {
	if isGenerated(v.Type()) {
		if !v.CanAddr() {
			fresh := reflect.New(v.Type()).Elem()
			fresh.Set(v)
			v = fresh
		}
		return v.Addr().Interface().(apache.TStruct).Write(e.ctx, e)
	}
	l, err := e.layoutOf(v.Type())
	if err != nil {
		return err
	}
	if err := e.WriteStructBegin(e.ctx, v.Type().Name()); err != nil {
		return err
	}
	for _, f := range l.fields {
		fv := v.Field(f.index)
		if fv.Kind() == reflect.Pointer && fv.IsNil() {
			if f.required {
				return fmt.Errorf("field %q of %v is required, and nil", f.name, v.Type())
			}
			continue
		}
		if err := e.field(f.name, f.kind, f.id, fv); err != nil {
			return err
		}
	}
	return errors.Join(e.WriteFieldStop(e.ctx), e.WriteStructEnd(e.ctx))
}

// field writes one field of a struct.
func (e *encoder) field(name string, t apache.TType, id int16, v reflect.Value) error {
	if err := e.WriteFieldBegin(e.ctx, name, t, id); err != nil {
		return err
	}
	if err := e.value(t, v); err != nil {
		return fmt.Errorf("field %d: %w", id, err)
	}
	return e.WriteFieldEnd(e.ctx)
}

// elements writes a list or a set from a slice, or a set from a map.
func (e *encoder) elements(t apache.TType, v reflect.Value) error {
	begin, end := e.WriteListBegin, e.WriteListEnd
	if t == apache.SET {
		begin, end = e.WriteSetBegin, e.WriteSetEnd
	}
	elem := v.Type().Elem()
	if v.Kind() == reflect.Map {
		elem = v.Type().Key()
	}
	kind, err := kindOf(elem)
	if err != nil {
		return err
	}
	if err := begin(e.ctx, kind, v.Len()); err != nil {
		return err
	}
	if err := e.each(kind, v); err != nil {
		return err
	}
	return end(e.ctx)
}

func (e *encoder) each(kind apache.TType, v reflect.Value) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer func() { e.depth-- }()
	if v.Kind() == reflect.Map {
		for it := v.MapRange(); it.Next(); {
			if err := e.value(kind, it.Key()); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range v.Len() {
		if err := e.value(kind, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) mapping(v reflect.Value) error {
	key, err := kindOf(v.Type().Key())
	if err != nil {
		return err
	}
	value, err := kindOf(v.Type().Elem())
	if err != nil {
		return err
	}
	if err := e.WriteMapBegin(e.ctx, key, value, v.Len()); err != nil {
		return err
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer func() { e.depth-- }()
	for it := v.MapRange(); it.Next(); {
		if err := e.value(key, it.Key()); err != nil {
			return err
		}
		if err := e.value(value, it.Value()); err != nil {
			return err
		}
	}
	return e.WriteMapEnd(e.ctx)
}

// success writes the result of a method, which is all of its response.
func (e *encoder) success(v any, decl *declaration) error {
	if decl != nil && decl.result != nil {
		return e.declared(v, decl)
	}
	if err := e.WriteStructBegin(e.ctx, "result"); err != nil {
		return err
	}
	if value := reflect.ValueOf(v); value.IsValid() {
		t, err := kindOf(value.Type())
		if err != nil {
			return err
		}
		if err := e.field("success", t, 0, value); err != nil {
			return err
		}
	}
	return errors.Join(e.WriteFieldStop(e.ctx), e.WriteStructEnd(e.ctx))
}

// declared writes the result as the declared struct.
func (e *encoder) declared(v any, decl *declaration) error {
	value := reflect.ValueOf(v)
	if value.Kind() == reflect.Pointer && value.Type().Elem() == decl.result {
		return e.structure(value.Elem())
	}
	result := reflect.New(decl.result).Elem()
	switch {
	case value.IsValid() && value.Type() == decl.result:
		result.Set(value)
	case value.IsValid() && decl.success != nil:
		if err := assign(result.Field(decl.success.index), value); err != nil {
			return fmt.Errorf("the result: %w", err)
		}
		makeEmpty(result.Field(decl.success.index))
	}
	return e.structure(result)
}

// makeEmpty replaces a nil slice or map by an empty one: generated code takes nil for no
// result.
func makeEmpty(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice && v.IsNil():
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case v.Kind() == reflect.Map && v.IsNil():
		v.Set(reflect.MakeMap(v.Type()))
	}
}

// exception writes err as the exception that the method declares for it, and reports
// whether there is one.
func (e *encoder) exception(err error, decl *declaration) (bool, error) {
	if decl == nil {
		return false, nil
	}
	for _, f := range decl.exceptions {
		target := reflect.New(decl.result.Field(f.index).Type)
		if errors.As(err, target.Interface()) {
			result := reflect.New(decl.result).Elem()
			result.Field(f.index).Set(target.Elem())
			return true, e.structure(result)
		}
	}
	return false, nil
}
