package web

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tandem-rpc/tandem"
)

// plainFields returns the parameters of a GET's query that are fields of the argument,
// without Connect's own; nil if the query has a message.
func plainFields(q url.Values) url.Values {
	if q.Has("message") {
		return nil
	}
	fields := make(url.Values, len(q))
	for name, values := range q {
		switch name {
		case "encoding", "base64", "compression", "connect":
		default:
			fields[name] = values
		}
	}
	return fields
}

// queryMessage returns the fields of a query as JSON for the argument v. A field that v
// lacks is an error, since decoding would ignore it silently.
func queryMessage(c tandem.Codec, fields url.Values, v any) ([]byte, error) {
	if c.Name() != "json" {
		return nil, errors.New("fields in the query are JSON: send ?encoding=proto&base64=1&message=…, or no encoding")
	}
	if several, ok := v.(tandem.Results); ok {
		return nil, fmt.Errorf("fields in the query are those of one argument, the method has %d: send ?message=[…]", len(several))
	}
	object := make(map[string]json.RawMessage, len(fields))
	for name, values := range fields {
		kind, err := queryKind(v, name)
		if err == nil {
			object[name], err = kind.json(values)
		}
		if err != nil {
			return nil, fmt.Errorf("field %.100q of the query: %w", name, err)
		}
	}
	return json.Marshal(object)
}

// fieldKind says how a field's text is converted to JSON.
type fieldKind struct {
	list   bool
	quoted bool // a JSON string, else a number or a Boolean
	either bool // a number stays as it is, other text is quoted
}

func (k fieldKind) json(values []string) (json.RawMessage, error) {
	if !k.list && len(values) != 1 {
		return nil, fmt.Errorf("it has %d values, one is wanted", len(values))
	}
	list := make([]json.RawMessage, len(values))
	for i, text := range values {
		switch plain := json.Valid([]byte(text)) && !strings.ContainsAny(text[:1], "\"[{ \t\r\n"); {
		case k.quoted || k.either && !plain:
			list[i] = encodeText(text)
		case plain:
			list[i] = json.RawMessage(text)
		default:
			return nil, fmt.Errorf("%.100q is neither a number nor a Boolean", text)
		}
	}
	if k.list {
		return json.Marshal(list)
	}
	return list[0], nil
}

// encodeText returns a text as a JSON string.
func encodeText(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return b
}

var (
	errNoStruct  = errors.New("the argument is no struct: send ?message=…")
	errNoField   = errors.New("the argument has no such field")
	errNoScalars = errors.New("it is no text, number or Boolean, nor a list of them: send ?message={…}")
)

// queryKind finds the field with this name in the argument v.
func queryKind(v any, name string) (fieldKind, error) {
	if m, ok := v.(proto.Message); ok {
		return protoKind(m.ProtoReflect().Descriptor().Fields(), name)
	}
	t := reflect.TypeOf(v)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return fieldKind{}, errNoStruct
	}
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" {
			tag = f.Name
		}
		if !f.IsExported() || f.Tag.Get("json") == "-" || !strings.EqualFold(tag, name) {
			continue
		}
		kind, err := goKind(f.Type)
		kind.quoted = kind.quoted || strings.Contains(options, "string")
		return kind, err
	}
	return fieldKind{}, errNoField
}

func goKind(t reflect.Type) (k fieldKind, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && t.Elem().Kind() != reflect.Slice {
		k, err = goKind(t.Elem())
		k.list = true
		return k, err
	}
	p := reflect.PointerTo(t)
	switch kind := t.Kind(); {
	case p.Implements(reflect.TypeFor[json.Unmarshaler]()):
		k.either = true
	case p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), kind == reflect.String, kind == reflect.Slice:
		k.quoted = true
	case kind < reflect.Bool || kind > reflect.Float64 || kind == reflect.Uintptr:
		return k, errNoScalars
	}
	return k, nil
}

func protoKind(fields protoreflect.FieldDescriptors, name string) (k fieldKind, err error) {
	f := fields.ByJSONName(name)
	if f == nil {
		f = fields.ByTextName(name)
	}
	if f == nil {
		return k, errNoField
	}
	k.list = f.IsList()
	switch f.Kind() {
	case protoreflect.BoolKind:
	case protoreflect.EnumKind:
		k.either = true
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return k, errNoScalars
	default:
		k.quoted = true // numbers too, which the JSON mapping accepts as strings
	}
	return k, nil
}
