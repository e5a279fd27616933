package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// body has the parameters and the result of one call.
type body struct {
	codec  tandem.Codec
	req    *request
	result []byte // JSON; nil for none
}

// Stream returns nil: JSON-RPC has no streams.
func (*body) Stream() tandem.MessageStream { return nil }

// Encode encodes the results.
func (b *body) Encode(v any) (err error) {
	b.result, err = b.encode(v)
	return err
}

func (b *body) encode(v any) (result []byte, err error) {
	if e, ok := v.(*tandem.Encoded); ok {
		return e.Append(nil, func(_ []byte, v any) ([]byte, error) { return b.encode(v) })
	}
	if several, ok := v.(tandem.Args); ok {
		v = []any(several)
		if len(several) == 0 {
			v = nil
		}
	}
	result, err = codec.Append(b.codec, nil, v)
	if err == nil && b.req.old() && isNull(result) {
		result = b.empty(v)
	}
	return result, err
}

// nothing is the result of a version 1.0 call that has none. Errors have the result null:
// Go's client takes a response with null and no error for a broken connection, and fails
// all its calls. It does the same for a result of the wrong type; structs, maps and
// interfaces accept an object.
var nothing = []byte("{}")

// empty returns the result that replaces null: the empty value of the result's type.
func (b *body) empty(v any) []byte {
	t := reflect.TypeOf(v)
	if t == nil {
		return nothing
	}
	for range codec.MaxDepth { // a pointer may point to its own type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	empty := reflect.Zero(t)
	switch t.Kind() {
	case reflect.Slice:
		empty = reflect.MakeSlice(t, 0, 0)
	case reflect.Map:
		empty = reflect.MakeMap(t)
	}
	result, err := codec.Append(b.codec, nil, empty.Interface())
	if err != nil || len(result) == 0 || isNull(result) { // of an interface, or of a type that marshals itself as null
		return nothing
	}
	return result
}

// Decode decodes the parameters into the arguments.
func (b *body) Decode(v any) error {
	return server.Unfit(b.decode(v))
}

func (b *body) decode(v any) error {
	params := b.req.Params
	several, ok := v.(tandem.Results)
	if ok && len(several) == 0 && b.req.old() {
		return nil
	}
	if len(params) == 0 || isNull(params) {
		if ok && len(several) == 0 {
			return nil
		}
		return errors.New("there are no params")
	}
	if params[0] == '{' {
		return b.decodeNamed(v, params)
	}
	var list []json.RawMessage
	if err := b.codec.Decode(params, &list); err != nil {
		return err
	}
	if ok {
		return b.decodeEach(several, list)
	}
	return b.decodeSole(v, list)
}

// decodeNamed decodes parameters by name.
func (b *body) decodeNamed(v any, params json.RawMessage) error {
	several, ok := v.(tandem.Results)
	switch {
	case b.req.old():
		return errors.New("version 1.0 has params in an array")
	case ok && len(several) > 0:
		return fmt.Errorf("the %d parameters have no names: send an array", len(several))
	case ok && string(params) != "{}":
		return errors.New("there are params, and none are wanted")
	case ok:
		return nil
	}
	return b.codec.Decode(params, v)
}

// decodeEach decodes parameters by position.
func (b *body) decodeEach(targets []any, list []json.RawMessage) error {
	if len(list) != len(targets) {
		return fmt.Errorf("there are %d params, %d are wanted", len(list), len(targets))
	}
	for i, p := range list {
		if err := b.codec.Decode(p, targets[i]); err != nil {
			return fmt.Errorf("param %d: %w", i+1, err)
		}
	}
	return nil
}

// decodeSole decodes parameters by position into the only argument, by the rules in the
// package comment.
func (b *body) decodeSole(v any, list []json.RawMessage) error {
	target := reflect.Indirect(reflect.ValueOf(v))
	kind := target.Kind()
	custom := target.IsValid() && reflect.PointerTo(target.Type()).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch {
	case len(list) == 1 && (b.req.old() || custom || fits(target, list[0])):
		return b.codec.Decode(list[0], v)
	case custom:
	case kind == reflect.Struct:
		return b.decodeEach(fieldsOf(target), list)
	case kind == reflect.Slice, kind == reflect.Array, kind == reflect.Interface:
		return b.codec.Decode(b.req.Params, v)
	}
	return fmt.Errorf("there are %d params, one is wanted", len(list))
}

// fits reports whether the only parameter is the argument itself, and not its only field or
// element.
func fits(target reflect.Value, param json.RawMessage) bool {
	switch target.Kind() {
	case reflect.Struct:
		return param[0] == '{' || isNull(param)
	case reflect.Slice, reflect.Array:
		bytes := target.Type().Elem().Kind() == reflect.Uint8 // they are a base64 string
		return param[0] == '[' || bytes && param[0] == '"' || isNull(param)
	}
	return true
}

// fieldsOf returns pointers to the exported fields of a struct, in order.
func fieldsOf(v reflect.Value) []any {
	var fields []any
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
			fields = append(fields, v.Field(i).Addr().Interface())
		}
	}
	return fields
}
