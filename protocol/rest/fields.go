package rest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tandem-rpc/tandem/protocol/web"
)

// fieldPath are the fields that lead from a message to one below it.
type fieldPath []protoreflect.FieldDescriptor

func (p fieldPath) last() protoreflect.FieldDescriptor { return p[len(p)-1] }

func (p fieldPath) String() string {
	names := make([]string, len(p))
	for i, f := range p {
		names[i] = string(f.Name())
	}
	return strings.Join(names, ".")
}

// maxDepth is how many fields a path may have.
const maxDepth = 16

// findField finds a field of a message by its path, in names of Protocol Buffers or of JSON.
func findField(m protoreflect.MessageDescriptor, path string) (p fieldPath, err error) {
	names := strings.SplitN(path, ".", maxDepth+1)
	if len(names) > maxDepth {
		return nil, fmt.Errorf("the path has more than %d fields", maxDepth)
	}
	for i, name := range names {
		f := m.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			f = m.Fields().ByJSONName(name)
		}
		if f == nil {
			return nil, fmt.Errorf("%s has no field %.100q", m.FullName(), name)
		}
		p = append(p, f)
		if i == len(names)-1 {
			break
		}
		if m = f.Message(); m == nil || f.IsList() || f.IsMap() || isText(m) {
			return nil, fmt.Errorf("%s is no message with fields", f.FullName())
		}
	}
	return p, nil
}

// fitsPath returns why a field can't be in a path.
func (p fieldPath) fitsPath() error {
	if f := p.last(); f.IsList() || f.IsMap() || !isScalar(f) {
		return fmt.Errorf("%s is not a single value", f.FullName())
	}
	return nil
}

// isScalar reports whether values of a field have a form as text.
func isScalar(f protoreflect.FieldDescriptor) bool { return f.Message() == nil || isText(f.Message()) }

// isText reports whether the JSON of a message is one value of text, or a number or a Boolean.
func isText(m protoreflect.MessageDescriptor) bool {
	name, ok := strings.CutPrefix(string(m.FullName()), "google.protobuf.")
	return ok && (isWrapper(name) || slices.Contains([]string{"Timestamp", "Duration", "FieldMask"}, name))
}

func isWrapper(name string) bool {
	return strings.HasSuffix(name, "Value") && name != "Value" && name != "ListValue" && name != "NullValue" && !strings.HasPrefix(name, "Enum")
}

// bind sets the fields of a request's path and query.
func (r *route) bind(m protoreflect.Message, segments []string, query url.Values) error {
	if m.Descriptor() != r.input {
		return fmt.Errorf("the method takes %s, its definition says %s", m.Descriptor().FullName(), r.input.FullName())
	}
	for name, values := range query {
		if err := r.bindParam(m, name, values); err != nil {
			return fmt.Errorf("parameter %.100q: %w", name, err)
		}
	}
	for i, v := range r.template.variables {
		to := v.to
		if r.template.segments[to-1] == many {
			to = len(segments)
		}
		if err := set(m, r.fields[i], []string{strings.Join(segments[v.from:to], "/")}); err != nil {
			return fmt.Errorf("%s in the path: %w", v.field, err)
		}
	}
	return nil
}

func (r *route) bindParam(m protoreflect.Message, name string, values []string) error {
	if r.whole {
		return errors.New("the body is the whole message")
	}
	p, err := findField(r.input, name)
	switch {
	case err != nil:
		return err
	case p[0] == r.body:
		return errors.New("the body is this field")
	case slices.ContainsFunc(r.fields, func(f fieldPath) bool { return slices.Equal(f, p) }):
		return errors.New("it is in the path")
	case p.last().IsMap() || !isScalar(p.last()):
		return fmt.Errorf("%s is no single value, nor a list of them", p.last().FullName())
	case !p.last().IsList() && len(values) > 1:
		return fmt.Errorf("it has %d values, one is wanted", len(values))
	}
	if one := p.last().ContainingOneof(); one != nil && !one.IsSynthetic() {
		if at := reach(m, p); at.WhichOneof(one) != nil {
			return fmt.Errorf("more than one of %s is set", one.FullName())
		}
	}
	return set(m, p, values)
}

// reach returns the message with the last field of a path, which it creates.
func reach(m protoreflect.Message, p fieldPath) protoreflect.Message {
	for _, f := range p[:len(p)-1] {
		m = m.Mutable(f).Message()
	}
	return m
}

// set sets a field, or appends to a list.
func set(m protoreflect.Message, p fieldPath, texts []string) error {
	m = reach(m, p)
	f := p.last()
	if !f.IsList() {
		v, err := parseValue(f, texts[0], func() protoreflect.Value { return m.NewField(f) })
		if err == nil {
			m.Set(f, v)
		}
		return err
	}
	list := m.Mutable(f).List()
	for _, text := range texts {
		v, err := parseValue(f, text, list.NewElement)
		if err != nil {
			return err
		}
		list.Append(v)
	}
	return nil
}

// parseValue returns the value that a text has for a field. zero returns a new value of it.
func parseValue(f protoreflect.FieldDescriptor, text string, zero func() protoreflect.Value) (v protoreflect.Value, err error) {
	switch kind := f.Kind(); kind {
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return v, fmt.Errorf("%.100q is neither true nor false", text)
		}
		return protoreflect.ValueOfBool(text == "true"), nil
	case protoreflect.StringKind:
		if !utf8.ValidString(text) {
			return v, errors.New("it is not UTF-8")
		}
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BytesKind:
		b, err := parseBytes(text)
		return protoreflect.ValueOfBytes(b), err
	case protoreflect.EnumKind:
		return parseEnum(f.Enum(), text)
	case protoreflect.MessageKind, protoreflect.GroupKind:
		v = zero()
		return v, parseMessage(text, v.Message())
	default:
		return parseNumber(kind, text)
	}
}

// parseBytes decodes base64, for URLs or not, with padding or not.
func parseBytes(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%.100q is not base64", text)
	}
	return b, nil
}

func parseEnum(e protoreflect.EnumDescriptor, text string) (v protoreflect.Value, err error) {
	if d := e.Values().ByName(protoreflect.Name(text)); d != nil {
		return protoreflect.ValueOfEnum(d.Number()), nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return v, fmt.Errorf("%.100q is no value of %s", text, e.FullName())
	}
	return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n)), nil
}

// parseMessage parses a message whose JSON is one value.
func parseMessage(text string, m protoreflect.Message) error {
	d := m.Descriptor()
	if isWrapper(string(d.Name())) {
		f := d.Fields().ByName("value")
		v, err := parseValue(f, text, func() protoreflect.Value { return m.NewField(f) })
		if err == nil {
			m.Set(f, v)
		}
		return err
	}
	quoted, err := json.Marshal(text)
	if err == nil {
		err = protojson.Unmarshal(quoted, m.Interface())
	}
	if err != nil {
		return fmt.Errorf("%.100q is no %s", text, d.FullName())
	}
	return nil
}

func parseNumber(kind protoreflect.Kind, text string) (v protoreflect.Value, err error) {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 32)
		v = protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v = protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 32)
		v = protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		v = protoreflect.ValueOfUint64(n)
	case protoreflect.FloatKind:
		var x float64
		x, err = parseFloat(text, 32) //nolint:mnd // bits
		v = protoreflect.ValueOfFloat32(float32(x))
	default:
		var x float64
		x, err = parseFloat(text, 64) //nolint:mnd // bits
		v = protoreflect.ValueOfFloat64(x)
	}
	if err != nil {
		return v, fmt.Errorf("%.100q is no %v", text, kind)
	}
	return v, nil
}

// parseFloat parses a number as in the JSON of Protocol Buffers: NaN, Infinity, or decimal.
func parseFloat(text string, bits int) (float64, error) {
	switch text {
	case "NaN":
		return math.NaN(), nil
	case "Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	if text == "" || strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(text, bits)
}

// fieldJSON returns the JSON of one field of a message.
func fieldJSON(m proto.Message, f protoreflect.FieldDescriptor) ([]byte, error) {
	from := m.ProtoReflect()
	if from.Descriptor() != f.ContainingMessage() {
		return nil, fmt.Errorf("the method returns %s, its definition says %s", from.Descriptor().FullName(), f.ContainingMessage().FullName())
	}
	only := from.New()
	set := from.Has(f)
	if set {
		only.Set(f, from.Get(f))
	}
	b, err := protojson.MarshalOptions{EmitDefaultValues: !set}.Marshal(only.Interface())
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, err
	}
	if value, ok := fields[f.JSONName()]; ok {
		return value, nil
	}
	return []byte("null"), nil // a message that is not there
}

// maxDescribed is how deep messages are for which parameters are described.
const maxDescribed = 3

// queryParams describes the fields below a message that a query can set.
func (r *route) queryParams(m protoreflect.MessageDescriptor, prefix string, depth int) (list []web.Parameter) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name := prefix + f.JSONName()
		path, err := findField(r.input, name)
		inPath := err != nil || slices.ContainsFunc(r.fields, func(p fieldPath) bool { return slices.Equal(p, path) })
		switch {
		case f == r.body || f.IsMap() || inPath:
		case isScalar(f):
			list = append(list, web.Parameter{Name: name, Query: true, Field: f})
		case !f.IsList() && depth < maxDescribed:
			list = append(list, r.queryParams(f.Message(), name+".", depth+1)...)
		}
	}
	return list
}
