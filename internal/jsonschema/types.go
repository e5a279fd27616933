// Package jsonschema makes JSON Schemas (draft 2020-12) of the JSON that methods take and return,
// from their Go types and Protocol Buffers messages.
package jsonschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Object is a JSON object.
type Object = map[string]any

// Schemas are the schemas of a document; each type with a name is described once. The zero value
// is not usable: see [New].
type Schemas struct {
	base  string // of references: what precedes a name
	names map[string]bool
	types map[reflect.Type]string // names of the types that have been described
	all   Object
}

// New returns an empty set of schemas, which refer to each other by base and a name:
// "#/components/schemas/" in OpenAPI.
func New(base string) *Schemas {
	return &Schemas{base: base, names: map[string]bool{}, types: map[reflect.Type]string{}, all: Object{}}
}

// Define adds a schema under a name, which no type gets then.
func (s *Schemas) Define(name string, schema Object) {
	s.names[name] = true
	s.all[name] = schema
}

// Defined returns the schemas that others refer to, by name.
func (s *Schemas) Defined() Object { return s.all }

// Several returns the schema of a method's arguments or results: the schema of the only
// one, or of an array. Those of a nil list are not known.
func (s *Schemas) Several(types []reflect.Type) Object {
	switch {
	case types == nil:
		return Object{}
	case len(types) == 1:
		return s.Argument(types[0])
	case len(types) == 0:
		return Object{"type": []string{"object", "null"}, "maxProperties": 0}
	}
	var items []Object
	for _, t := range types {
		items = append(items, s.Argument(t))
	}
	return Object{"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
}

// Argument returns the schema of one argument or result. A Protocol Buffers message is
// never null.
func (s *Schemas) Argument(t reflect.Type) Object {
	o := s.of(t)
	if Message(t) != nil {
		return present(o)
	}
	return o
}

// Message returns the descriptor of a type that is a Protocol Buffers message, with or without a
// pointer; nil for other types.
func Message(t reflect.Type) protoreflect.MessageDescriptor {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if p := reflect.PointerTo(t); !p.Implements(reflect.TypeFor[proto.Message]()) {
		return nil
	}
	m := reflect.New(t).Interface().(proto.Message) //nolint:forcetypeassert // checked above
	return m.ProtoReflect().Descriptor()
}

// nullable is the schema of a type that may be null: encoding/json accepts null for every
// type, and writes it for nil.
func nullable(kind string, more ...Object) Object {
	o := Object{"type": []string{kind, "null"}}
	for _, m := range more {
		maps.Copy(o, m)
	}
	return o
}

// dateTime is the schema of a time. Its pattern is stricter than the format, which some
// validators do not check and which allows lower-case letters.
func dateTime() Object {
	return nullable("string", Object{
		"format":  "date-time",
		"pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$`,
	})
}

// mostFloat is the largest number that encoding/json rounds to a finite float32.
const mostFloat = 3.4028235677973366e38

// of returns the schema of a type's JSON.
func (s *Schemas) of(t reflect.Type) Object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	p := reflect.PointerTo(t)
	switch {
	case p.Implements(reflect.TypeFor[proto.Message]()):
		return s.message(Message(t))
	case t == reflect.TypeFor[time.Time]():
		return dateTime()
	case p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return Object{} // only the type knows its JSON
	case p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return nullable("string")
	}
	return s.ofKind(t)
}

func (s *Schemas) ofKind(t reflect.Type) Object {
	switch t.Kind() {
	case reflect.Bool:
		return nullable("boolean")
	case reflect.String:
		return nullable("string")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return nullable("integer", Object{"minimum": int64(math.MinInt64) >> (64 - t.Bits()), "maximum": int64(math.MaxInt64) >> (64 - t.Bits())})
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return nullable("integer", Object{"minimum": 0, "maximum": uint64(math.MaxUint64) >> (64 - t.Bits())})
	case reflect.Float32:
		return nullable("number", Object{"minimum": -mostFloat, "maximum": mostFloat})
	case reflect.Float64:
		return nullable("number")
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nullable("string", Object{"contentEncoding": "base64", "format": "byte"})
		}
		return nullable("array", Object{"items": s.of(t.Elem())})
	case reflect.Array:
		return nullable("array", Object{"items": s.of(t.Elem())})
	case reflect.Map:
		return nullable("object", Object{"additionalProperties": s.of(t.Elem())})
	case reflect.Struct:
		return s.named(t)
	}
	return Object{}
}

// named returns a reference to the schema of a struct, or the schema if it has no name.
func (s *Schemas) named(t reflect.Type) Object {
	if name, ok := s.types[t]; ok {
		return s.ref(name)
	}
	if t.Name() == "" {
		return s.structure(t)
	}
	name := s.free(t.String())
	s.types[t] = name // before its fields, which may contain the same type
	s.all[name] = s.structure(t)
	return s.ref(name)
}

func (s *Schemas) ref(name string) Object { return Object{"$ref": s.base + name} }

// free returns an unused name, with the characters that OpenAPI allows.
func (s *Schemas) free(name string) string {
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '_'
	}, name)
	for n, first := 2, name; s.names[name]; n++ {
		name = fmt.Sprintf("%s_%d", first, n)
	}
	s.names[name] = true
	return name
}

func (s *Schemas) structure(t reflect.Type) Object {
	properties := Object{}
	s.fields(t, properties, 0)
	return nullable("object", Object{"properties": properties})
}

// deepest limits how deep embedded structs are followed: they may be recursive.
const deepest = 8

// fields adds the fields of a struct, as encoding/json names them.
func (s *Schemas) fields(t reflect.Type, to Object, depth int) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-" && options == "":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			if depth < deepest {
				s.fields(inner, to, depth+1)
			}
		case !f.IsExported():
		case strings.Contains(","+options+",", ",string,"):
			to[orName(name, f)] = nullable("string")
		default:
			to[orName(name, f)] = s.of(f.Type)
		}
	}
}

func orName(name string, f reflect.StructField) string {
	if name == "" {
		return f.Name
	}
	return name
}
