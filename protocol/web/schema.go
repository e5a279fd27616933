package web

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
)

// schemas are the schemas of a document; each type with a name is described once.
type schemas struct {
	names map[string]bool
	types map[reflect.Type]string // names of the types that have been described
	all   object
}

// nullable is the schema of a type that may be null: encoding/json accepts null for every
// type, and writes it for nil.
func nullable(kind string, more ...object) object {
	o := object{"type": []string{kind, "null"}}
	for _, m := range more {
		maps.Copy(o, m)
	}
	return o
}

// dateTime is the schema of a time. Its pattern is stricter than the format, which some
// validators do not check and which allows lower-case letters.
func dateTime() object {
	return nullable("string", object{
		"format":  "date-time",
		"pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$`,
	})
}

// mostFloat is the largest number that encoding/json rounds to a finite float32.
const mostFloat = 3.4028235677973366e38

// of returns the schema of a type's JSON.
func (s *schemas) of(t reflect.Type) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	p := reflect.PointerTo(t)
	switch {
	case p.Implements(reflect.TypeFor[proto.Message]()):
		m := reflect.New(t).Interface().(proto.Message)
		return s.message(m.ProtoReflect().Descriptor())
	case t == reflect.TypeFor[time.Time]():
		return dateTime()
	case p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return object{} // only the type knows its JSON
	case p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return nullable("string")
	}
	return s.ofKind(t)
}

func (s *schemas) ofKind(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Bool:
		return nullable("boolean")
	case reflect.String:
		return nullable("string")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return nullable("integer", object{"minimum": int64(math.MinInt64) >> (64 - t.Bits()), "maximum": int64(math.MaxInt64) >> (64 - t.Bits())})
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return nullable("integer", object{"minimum": 0, "maximum": uint64(math.MaxUint64) >> (64 - t.Bits())})
	case reflect.Float32:
		return nullable("number", object{"minimum": -mostFloat, "maximum": mostFloat})
	case reflect.Float64:
		return nullable("number")
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nullable("string", object{"contentEncoding": "base64", "format": "byte"})
		}
		return nullable("array", object{"items": s.of(t.Elem())})
	case reflect.Array:
		return nullable("array", object{"items": s.of(t.Elem())})
	case reflect.Map:
		return nullable("object", object{"additionalProperties": s.of(t.Elem())})
	case reflect.Struct:
		return s.named(t)
	}
	return object{}
}

// named returns a reference to the schema of a struct, or the schema if it has no name.
func (s *schemas) named(t reflect.Type) object {
	if name, ok := s.types[t]; ok {
		return ref(name)
	}
	if t.Name() == "" {
		return s.structure(t)
	}
	name := s.free(t.String())
	s.types[t] = name // before its fields, which may contain the same type
	s.all[name] = s.structure(t)
	return ref(name)
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// free returns an unused name, with the characters that OpenAPI allows.
func (s *schemas) free(name string) string {
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '_'
	}, name)
	for n, first := 2, name; s.names[name] || name == "Error"; n++ {
		name = fmt.Sprintf("%s_%d", first, n)
	}
	s.names[name] = true
	return name
}

func (s *schemas) structure(t reflect.Type) object {
	properties := object{}
	s.fields(t, properties, 0)
	return nullable("object", object{"properties": properties})
}

// deepest limits how deep embedded structs are followed: they may be recursive.
const deepest = 8

// fields adds the fields of a struct, as encoding/json names them.
func (s *schemas) fields(t reflect.Type, to object, depth int) {
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
