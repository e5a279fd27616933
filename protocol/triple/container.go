package triple

import (
	"errors"
	"fmt"
	"reflect"
)

// isContainer reports whether a tag begins a list, a map or an object.
func isContainer(tag byte) bool {
	switch tag {
	case 'H', 'M', 'O', 'U', 'V', 'W', 'X':
		return true
	}
	return tag >= 0x60 && tag <= 0x7f
}

// earlier is a list, a map or an object that later references may mean.
type earlier struct {
	value reflect.Value
	whole bool // the value has been read completely
}

// container reads a list, a map or an object into v, and records it for references.
func (d *decoder) container(tag byte, v reflect.Value) error {
	if err := d.charge(container); err != nil {
		return err
	}
	at := len(d.refs)
	d.refs = append(d.refs, earlier{})
	where := settle(v)
	var err error
	switch {
	case tag == 'H' || tag == 'M' || tag == 'O' || isOneOf(tag, 0x60, 16):
		err = d.record(tag, at, where)
	default:
		err = d.list(tag, where)
	}
	if where.Kind() == reflect.Interface {
		where = where.Elem()
	}
	d.refs[at] = earlier{where, true}
	return err
}

// settle follows pointers, and allocates their targets.
func settle(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	return v
}

// reference reads a reference and sets v to the value that it means.
func (d *decoder) reference(v reflect.Value) error {
	tag, err := d.tag()
	if err != nil {
		return err
	}
	x, err := d.scalar(tag)
	if err != nil {
		return err
	}
	n, ok := x.(int32)
	if !ok || n < 0 || int(n) >= len(d.refs) {
		return errors.New("a reference to nothing")
	}
	from, whole := d.refs[n].value, d.refs[n].whole
	switch {
	case v.Kind() == reflect.Pointer && from.CanAddr() && from.Addr().Type() == v.Type():
		v.Set(from.Addr())
		return nil
	case !whole:
		return errors.New("a reference to what it is a part of")
	case !from.Type().AssignableTo(settle(v).Type()):
		return fmt.Errorf("what was read as %v is referred to as %v", from.Type(), v.Type())
	}
	settle(v).Set(from)
	return nil
}

// list reads a list.
func (d *decoder) list(tag byte, v reflect.Value) error {
	if tag == 'U' || tag == 'V' || tag >= 0x70 && tag <= 0x77 {
		if err := d.name(); err != nil {
			return err
		}
	}
	n := -1 // up to an end tag
	switch {
	case tag >= 0x70:
		n = int(tag & 7)
	case tag == 'V' || tag == 'X':
		var err error
		if n, err = d.length(); err != nil {
			return err
		}
	}
	switch v.Kind() {
	case reflect.Slice:
		return d.elements(n, v)
	case reflect.Array:
		return errors.New("a list goes into a slice, not into an array")
	case reflect.Interface:
		list := reflect.New(reflect.TypeFor[[]any]()).Elem()
		if err := d.elements(n, list); err != nil {
			return err
		}
		return set(v, list)
	}
	return fmt.Errorf("a list does not fit into %v", v.Type())
}

// elements reads n elements, or, if n is negative, those up to an end tag.
func (d *decoder) elements(n int, v reflect.Value) error {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	each := sizeOf(v.Type().Elem()) * 5 / 2 // the list is copied while it grows, and refs keep the element
	for i := 0; n < 0 || i < n; i++ {
		if n < 0 && d.ended() {
			return nil
		}
		if err := d.charge(each); err != nil {
			return err
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(element); err != nil {
			return err
		}
		v.Set(reflect.Append(v, element))
	}
	return nil
}

// ended consumes the end tag of a list or map, if it is next.
func (d *decoder) ended() bool {
	if d.pos < len(d.src) && d.src[d.pos] == 'Z' {
		d.pos++
		return true
	}
	return false
}

// record reads a map or an object into a struct or a map. A struct may refer to itself.
func (d *decoder) record(tag byte, at int, v reflect.Value) error {
	next, err := d.keys(tag)
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Struct:
		d.refs[at].value = v
		return d.fields(next, v)
	case reflect.Map:
		return d.entries(next, v)
	case reflect.Interface:
		entries := reflect.New(reflect.TypeFor[map[string]any]()).Elem()
		if err := d.entries(next, entries); err != nil {
			return err
		}
		return set(v, entries)
	}
	return d.boxed(next, v)
}

// keys returns a function that reads the next key into a value, and reports whether there
// is one.
func (d *decoder) keys(tag byte) (func(key reflect.Value) (bool, error), error) {
	if tag == 'M' {
		if err := d.name(); err != nil {
			return nil, err
		}
	}
	if tag == 'H' || tag == 'M' {
		return func(key reflect.Value) (bool, error) {
			if d.ended() {
				return false, nil
			}
			return true, d.value(key)
		}, nil
	}
	n := int(tag) - 0x60
	if tag == 'O' {
		var err error
		if n, err = d.number32(); err != nil {
			return nil, err
		}
	}
	if n < 0 || n >= len(d.classes) {
		return nil, errors.New("an object of a class that was not described")
	}
	fields := d.classes[n].fields
	return func(key reflect.Value) (bool, error) {
		if len(fields) == 0 {
			return false, nil
		}
		name := fields[0]
		fields = fields[1:]
		return true, assign(key, name)
	}, nil
}

func (d *decoder) number32() (int, error) {
	tag, err := d.tag()
	if err != nil {
		return 0, err
	}
	x, err := d.scalar(tag)
	n, ok := x.(int32)
	if err == nil && !ok {
		err = errors.New("want a number")
	}
	return int(n), err
}

// fields reads into a struct. Fields that it does not have are read and discarded, since
// consumers may use a newer class.
func (d *decoder) fields(next func(reflect.Value) (bool, error), v reflect.Value) error {
	known := fieldsOf(v.Type())
	for {
		var name string
		more, err := next(reflect.ValueOf(&name).Elem())
		if err != nil || !more {
			return err
		}
		var strange any
		field := reflect.ValueOf(&strange).Elem()
		if i, ok := known.byName[name]; ok {
			field = v.FieldByIndex(known.list[i].index)
		}
		if err := d.value(field); err != nil {
			return within("field", name, err)
		}
	}
}

func (d *decoder) entries(next func(reflect.Value) (bool, error), v reflect.Value) error {
	v.Set(reflect.MakeMap(v.Type()))
	if err := d.charge(mapSize); err != nil {
		return err
	}
	for i := 0; ; i++ {
		key := reflect.New(v.Type().Key()).Elem()
		more, err := next(key)
		if err != nil || !more {
			return err
		}
		if err := d.charge(entrySize(v.Type(), i)); err != nil {
			return err
		}
		if !key.Comparable() {
			return errors.New("a key that is no key in Go")
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(value); err != nil {
			return within("entry", fmt.Sprint(key), err)
		}
		v.SetMapIndex(key, value)
	}
}

// entrySize is how much memory the map entry number i takes, in bytes.
func entrySize(t reflect.Type, i int) int64 {
	each := sizeOf(t.Key()) + sizeOf(t.Elem()) + 1
	switch {
	case i == 0:
		return (mapFirst + 1) * each // refs keep the value
	case i < mapFirst:
		return each
	}
	return 3 * each
}

// boxed reads an object into a value without parts: an enum constant as its name, a
// BigDecimal or BigInteger as its digits.
func (d *decoder) boxed(next func(reflect.Value) (bool, error), v reflect.Value) error {
	var name string
	more, err := next(reflect.ValueOf(&name).Elem())
	if err != nil {
		return err
	}
	if more && (name == "name" || name == "value") && v.Kind() == reflect.String {
		if err := d.value(v); err != nil {
			return err
		}
		if more, err = next(reflect.ValueOf(&name).Elem()); err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("an object does not fit into %v", v.Type())
}
