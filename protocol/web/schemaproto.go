package web

import (
	"math"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// message returns the schema of a message of Protocol Buffers in its JSON.
func (s *schemas) message(m protoreflect.MessageDescriptor) object {
	name := string(m.FullName())
	if strings.HasPrefix(name, "google.protobuf.") {
		return wellKnown(name)
	}
	if !s.names[name] {
		s.names[name] = true
		properties := object{}
		s.all[name] = nullable("object", object{"properties": properties})
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			properties[f.JSONName()] = s.protoField(f)
		}
	}
	return ref(name)
}

// wellKnown is the schema of a message that has a JSON of its own.
func wellKnown(name string) object {
	switch strings.TrimPrefix(name, "google.protobuf.") {
	case "Timestamp":
		return nullable("string", object{"format": "date-time"})
	case "Duration":
		return nullable("string", object{"pattern": `^-?[0-9]{1,11}(\.[0-9]{1,9})?s$`})
	case "StringValue", "FieldMask":
		return nullable("string")
	case "BytesValue":
		return nullable("string", object{"contentEncoding": "base64", "format": "byte"})
	case "BoolValue":
		return nullable("boolean")
	case "Empty", "Struct", "Any":
		return nullable("object")
	case "ListValue":
		return nullable("array")
	}
	return object{}
}

func (s *schemas) protoField(f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		return nullable("object", object{"additionalProperties": s.protoValue(f.MapValue())})
	case f.IsList():
		return nullable("array", object{"items": s.protoValue(f)})
	}
	return s.protoValue(f)
}

func (s *schemas) protoValue(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return nullable("boolean")
	case protoreflect.StringKind:
		return nullable("string")
	case protoreflect.BytesKind:
		return nullable("string", object{"contentEncoding": "base64", "format": "byte"})
	case protoreflect.EnumKind:
		return enum(f.Enum())
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return s.message(f.Message())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return nullable("integer", object{"minimum": math.MinInt32, "maximum": math.MaxInt32})
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return nullable("integer", object{"minimum": 0, "maximum": math.MaxUint32})
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return object{"type": []string{"number", "string", "null"}}
	}
	return object{"type": []string{"string", "integer", "null"}} // 64 bits, which JSON numbers may not have
}

func enum(e protoreflect.EnumDescriptor) object {
	names := []any{nil}
	for i := range e.Values().Len() {
		names = append(names, string(e.Values().Get(i).Name()))
	}
	return object{"anyOf": []object{{"enum": names}, {"type": "integer", "minimum": math.MinInt32, "maximum": math.MaxInt32}}}
}
