package thrift

import (
	"context"
	"fmt"
	"reflect"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
)

// decoder reads values by reflection, and generated types by their own code.
type decoder struct {
	*guard
	*types

	ctx context.Context //nolint:containedctx // Apache's functions need one; nothing here waits
}

// fields reads a struct and calls f for each field. f reads the field, or returns false to
// have it skipped.
func (d *decoder) fields(f func(id int16, t apache.TType) (known bool, err error)) error {
	if _, err := d.ReadStructBegin(d.ctx); err != nil {
		return err
	}
	for {
		_, t, id, err := d.ReadFieldBegin(d.ctx)
		if err != nil {
			return err
		}
		if t == apache.STOP {
			return d.ReadStructEnd(d.ctx)
		}
		known, err := f(id, t)
		if err == nil && !known {
			err = d.Skip(d.ctx, t)
		}
		if err != nil {
			return fmt.Errorf("field %d: %w", id, err)
		}
	}
}

// parameters reads a method's parameters into targets, which are those with the numbers
// from 1 on.
func (d *decoder) parameters(targets []any) error {
	return d.fields(func(id int16, t apache.TType) (bool, error) {
		if id < 1 || int(id) > len(targets) {
			return false, nil
		}
		return true, d.value(t, reflect.ValueOf(targets[id-1]).Elem())
	})
}

// value reads a value of Thrift type t into v, which must be settable.
func (d *decoder) value(t apache.TType, v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		if err := d.charge(sizeOf(v.Type().Elem())); err != nil {
			return err
		}
		fresh := reflect.New(v.Type().Elem())
		v.Set(fresh)
		v = fresh.Elem()
	}
	if isInt(v.Kind()) {
		return d.integer(t, v)
	}
	kind, err := kindOf(v.Type())
	if err != nil {
		return err
	}
	if t != kind && (kind != apache.LIST || t != apache.SET) {
		return fmt.Errorf("%v came where %v is wanted, for %v", t, kind, v.Type())
	}
	switch t {
	case apache.STRUCT:
		return d.structure(v)
	case apache.LIST, apache.SET:
		return d.elements(t, v)
	case apache.MAP:
		return d.mapping(v)
	}
	return d.scalar(t, v)
}

func isInt(k reflect.Kind) bool { return reflect.Int <= k && k <= reflect.Int64 || k == reflect.Uint8 }

// integer reads an integer of any size that v can hold.
func (d *decoder) integer(t apache.TType, v reflect.Value) error {
	n, err := d.number(t)
	if err != nil {
		return err
	}
	if t == apache.BYTE && v.CanUint() {
		n &= 0xff // the same bits
	}
	switch {
	case v.CanInt() && !v.OverflowInt(n):
		v.SetInt(n)
	case v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)):
		v.SetUint(uint64(n))
	default:
		return fmt.Errorf("%d is too large for %v", n, v.Type())
	}
	return nil
}

func (d *decoder) number(t apache.TType) (int64, error) {
	switch t {
	case apache.BYTE:
		n, err := d.ReadByte(d.ctx)
		return int64(n), err
	case apache.I16:
		n, err := d.ReadI16(d.ctx)
		return int64(n), err
	case apache.I32:
		n, err := d.ReadI32(d.ctx)
		return int64(n), err
	case apache.I64:
		return d.ReadI64(d.ctx)
	}
	return 0, fmt.Errorf("%v came where an integer is wanted", t)
}

// scalar reads a value that is neither an integer nor composed of other values.
func (d *decoder) scalar(t apache.TType, v reflect.Value) error {
	switch t {
	case apache.BOOL:
		b, err := d.ReadBool(d.ctx)
		v.SetBool(b)
		return err
	case apache.DOUBLE:
		f, err := d.ReadDouble(d.ctx)
		v.SetFloat(f)
		return err
	case apache.UUID:
		id, err := d.ReadUUID(d.ctx)
		v.Set(reflect.ValueOf(id))
		return err
	}
	if v.Kind() == reflect.String {
		s, err := d.ReadString(d.ctx)
		v.SetString(s)
		return err
	}
	b, err := d.ReadBinary(d.ctx)
	v.SetBytes(b)
	return err
}

// structure reads a struct.
func (d *decoder) structure(v reflect.Value) error {
	if isGenerated(v.Type()) {
		before := d.largest
		d.largest = d.largestOf(v.Type())
		defer func() { d.largest = before }()
		return v.Addr().Interface().(apache.TStruct).Read(d.ctx, d)
	}
	l, err := d.layoutOf(v.Type())
	if err != nil {
		return err
	}
	seen := make([]bool, len(l.fields))
	err = d.fields(func(id int16, t apache.TType) (bool, error) {
		for i, f := range l.fields {
			if f.id == id {
				seen[i] = true
				return true, d.value(t, v.Field(f.index))
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	for i, f := range l.fields {
		if f.required && !seen[i] {
			return fmt.Errorf("field %d of %v, %q, is required", f.id, v.Type(), f.name)
		}
	}
	return nil
}

// elements reads a list or a set into a slice, or a set into a map. Memory grows with the
// elements that have arrived.
func (d *decoder) elements(t apache.TType, v reflect.Value) error {
	begin, end := d.ReadListBegin, d.ReadListEnd
	if t == apache.SET {
		begin, end = d.ReadSetBegin, d.ReadSetEnd
	}
	kind, n, err := begin(d.ctx)
	if err != nil {
		return err
	}
	each := sizeOf(v.Type().Elem()) * 3 / 2 // slices are copied when they grow
	if v.Kind() == reflect.Map {
		each = 2 * (sizeOf(v.Type().Key()) + sizeOf(v.Type().Elem()))
	}
	if err := d.charge(int64(n) * each); err != nil {
		return err
	}
	if v.Kind() == reflect.Map {
		err = d.set(kind, n, v)
	} else {
		v.Set(reflect.MakeSlice(v.Type(), 0, min(n, 16)))
		for i := 0; i < n && err == nil; i++ {
			v.Grow(1)
			v.SetLen(i + 1)
			err = d.value(kind, v.Index(i))
		}
	}
	if err != nil {
		return err
	}
	return end(d.ctx)
}

func (d *decoder) set(kind apache.TType, n int, v reflect.Value) error {
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		key := reflect.New(v.Type().Key()).Elem()
		if err := d.key(kind, key); err != nil {
			return err
		}
		v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
	}
	return nil
}

// key reads the key of a map.
func (d *decoder) key(t apache.TType, v reflect.Value) error {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		return fmt.Errorf("a map by %v, which has no equals", v.Type())
	}
	return d.value(t, v)
}

func (d *decoder) mapping(v reflect.Value) error {
	keyType, valueType, n, err := d.ReadMapBegin(d.ctx)
	if err != nil {
		return err
	}
	each := sizeOf(v.Type().Key()) + sizeOf(v.Type().Elem())
	if err := d.charge(2 * int64(n) * each); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if err := d.key(keyType, key); err != nil {
			return err
		}
		if err := d.value(valueType, value); err != nil {
			return err
		}
		v.SetMapIndex(key, value)
	}
	return d.ReadMapEnd(d.ctx)
}

// arguments reads the parameters of a method into v, which the server provides.
func (d *decoder) arguments(v any, decl *declaration) error {
	targets, several := v.(tandem.Results)
	if !several {
		target := reflect.ValueOf(v)
		if target.Kind() != reflect.Pointer || target.IsNil() {
			return fmt.Errorf("arguments can't be read into a %T", v)
		}
		if t := target.Type().Elem(); t.Kind() == reflect.Struct && (isList(t) || decl != nil && decl.args == t) {
			return d.structure(target.Elem())
		}
		targets = tandem.Results{v}
	}
	if decl == nil || decl.args == nil {
		return d.parameters(targets)
	}
	if len(targets) != len(decl.parameters) {
		return fmt.Errorf("%v has %d parameters, the method %d", decl.args, len(decl.parameters), len(targets))
	}
	args := reflect.New(decl.args).Elem()
	if err := d.structure(args); err != nil {
		return err
	}
	for i, f := range decl.parameters {
		if err := assign(reflect.ValueOf(targets[i]).Elem(), args.Field(f.index)); err != nil {
			return fmt.Errorf("parameter %q: %w", f.name, err)
		}
	}
	return nil
}

// assign sets dst to src, or to the value that src points to; if src is nil, dst stays as
// it is.
func assign(dst, src reflect.Value) error {
	for src.Kind() == reflect.Pointer && src.Type() != dst.Type() {
		if src.IsNil() {
			return nil
		}
		src = src.Elem()
	}
	switch {
	case src.Type().AssignableTo(dst.Type()):
		dst.Set(src)
	case dst.Kind() == reflect.Pointer && src.Type().AssignableTo(dst.Type().Elem()):
		fresh := reflect.New(dst.Type().Elem())
		fresh.Elem().Set(src)
		dst.Set(fresh)
	case src.Kind() == dst.Kind() && src.CanConvert(dst.Type()):
		dst.Set(src.Convert(dst.Type()))
	default:
		return fmt.Errorf("a %v is no %v", src.Type(), dst.Type())
	}
	return nil
}
