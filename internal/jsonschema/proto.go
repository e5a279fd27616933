package jsonschema

import (
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// message returns the schema of a Protocol Buffers message in its JSON mapping.
func (s *Schemas) message(m protoreflect.MessageDescriptor) Object {
	name := string(m.FullName())
	if strings.HasPrefix(name, "google.protobuf.") {
		return wellKnown(name)
	}
	if !s.names[name] {
		s.names[name] = true
		properties := Object{}
		s.all[name] = nullable("object", Object{"properties": properties})
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			properties[f.JSONName()] = s.protoField(f)
		}
	}
	return s.ref(name)
}

// Message returns the schema of a Protocol Buffers message, which is never null.
func (s *Schemas) Message(m protoreflect.MessageDescriptor) Object { return present(s.message(m)) }

// Field returns the schema of a field of a Protocol Buffers message, without null.
func (s *Schemas) Field(f protoreflect.FieldDescriptor) Object { return present(s.protoField(f)) }

// Param returns the schema of a field of a Protocol Buffers message as text in a path or a query:
// an enum is one of its names.
func (s *Schemas) Param(f protoreflect.FieldDescriptor) Object {
	e := f.Enum()
	if e == nil {
		return s.Field(f)
	}
	names := Object{"type": "string", "enum": valueNames(e)}
	if f.IsList() {
		return Object{"type": "array", "items": names}
	}
	return names
}

// wellKnown returns the schema of a message with a JSON mapping of its own.
func wellKnown(name string) Object {
	switch strings.TrimPrefix(name, "google.protobuf.") {
	case "Timestamp":
		return dateTime()
	case "Duration":
		return nullable("string", Object{"pattern": `^-?[0-9]{1,11}(\.[0-9]{1,9})?s$`})
	case "StringValue", "FieldMask":
		return nullable("string")
	case "BytesValue":
		return nullable("string", Object{"contentEncoding": "base64", "format": "byte"})
	case "BoolValue":
		return nullable("boolean")
	case "Empty", "Struct", "Any":
		return nullable("object")
	case "ListValue":
		return nullable("array")
	}
	return Object{}
}

// keyPattern returns the pattern of the keys of a map in JSON, "" if they are any text.
func keyPattern(k protoreflect.Kind) string {
	switch k { //nolint:exhaustive // other kinds are no keys
	case protoreflect.StringKind:
		return ""
	case protoreflect.BoolKind:
		return "^(true|false)$"
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return "^[0-9]{1,10}$"
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return "^[0-9]{1,20}$"
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return "^-?[0-9]{1,10}$"
	}
	return "^-?[0-9]{1,19}$"
}

func (s *Schemas) protoField(f protoreflect.FieldDescriptor) Object {
	switch {
	case f.IsMap():
		o := nullable("object", Object{"additionalProperties": present(s.protoValue(f.MapValue()))})
		if pattern := keyPattern(f.MapKey().Kind()); pattern != "" {
			o["propertyNames"] = Object{"pattern": pattern}
		}
		return o
	case f.IsList():
		return nullable("array", Object{"items": present(s.protoValue(f))})
	}
	return s.protoValue(f)
}

func (s *Schemas) protoValue(f protoreflect.FieldDescriptor) Object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return nullable("boolean")
	case protoreflect.StringKind:
		return nullable("string")
	case protoreflect.BytesKind:
		return nullable("string", Object{"contentEncoding": "base64", "format": "byte"})
	case protoreflect.EnumKind:
		return enum(f.Enum())
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return s.message(f.Message())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return nullable("integer", Object{"minimum": math.MinInt32, "maximum": math.MaxInt32})
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return nullable("integer", Object{"minimum": 0, "maximum": math.MaxUint32})
	case protoreflect.FloatKind:
		return number(Object{"minimum": -mostFloat, "maximum": mostFloat})
	case protoreflect.DoubleKind:
		return number(Object{})
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return long(Object{"minimum": 0, "maximum": uint64(math.MaxUint64), "pattern": `^(0|[1-9][0-9]{0,19})$`})
	}
	return long(Object{"minimum": math.MinInt64, "maximum": math.MaxInt64, "pattern": `^(0|-?[1-9][0-9]{0,18})$`})
}

// number is the schema of a floating-point number, which is a string if JSON has no number
// for it (NaN, Infinity).
func number(o Object) Object {
	o["type"] = []string{"number", "string", "null"}
	o["pattern"] = `^(NaN|-?Infinity|-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?)$`
	return o
}

// long is the schema of a 64-bit integer, which is a string since JSON numbers may be less
// precise.
func long(o Object) Object {
	o["type"] = []string{"string", "integer", "null"}
	return o
}

// enum is the schema of an enum. Unknown names are accepted too, as zero: the sender may
// use a newer definition.
func enum(e protoreflect.EnumDescriptor) Object {
	return Object{"anyOf": []Object{
		{"enum": valueNames(e)}, {"type": []string{"string", "null"}},
		{"type": "integer", "minimum": math.MinInt32, "maximum": math.MaxInt32},
	}}
}

func valueNames(e protoreflect.EnumDescriptor) []string {
	names := make([]string, e.Values().Len())
	for i := range names {
		names[i] = string(e.Values().Get(i).Name())
	}
	return names
}

// present returns a schema without null: elements of lists and maps, and messages that are
// arguments or results, are never null.
func present(schema Object) Object {
	schema = maps.Clone(schema)
	switch {
	case schema["$ref"] != nil:
		schema["type"] = "object"
	case schema["anyOf"] != nil:
		schema["type"] = []string{"string", "integer"}
	default:
		if types, ok := schema["type"].([]string); ok {
			schema["type"] = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
		}
	}
	return schema
}
