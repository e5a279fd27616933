package introspect

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Schema is a JSON Schema without references to others.
type Schema map[string]any

// Limits of a schema. What servers say is not trusted.
const (
	maxDepth = 12
	maxNodes = 5_000 // of one schema
)

// inliner puts definitions where schemas refer to them.
type inliner struct {
	definitions map[string]any
	nodes       int
}

// inline returns a schema with the definitions that it refers to. Where a type contains itself,
// or the limits are reached, only its name remains. open has the names round the schema.
func (in *inliner) inline(v any, open []string) any {
	in.nodes++
	switch v := v.(type) {
	case map[string]any:
		if path, ok := v["$ref"].(string); ok {
			name := path[strings.LastIndexByte(path, '/')+1:]
			if slices.Contains(open, name) || len(open) >= maxDepth || in.nodes > maxNodes {
				return map[string]any{"title": name}
			}
			return in.inline(in.definitions[name], append(slices.Clip(open), name))
		}
		o := make(map[string]any, len(v))
		for key, value := range v {
			o[key] = in.inline(value, open)
		}
		return o
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = in.inline(v[i], open)
		}
		return list
	}
	return v
}

// String returns the schema as a short text: {A: integer, B: string[]}.
func (s Schema) String() string { return typeText(s, 0) }

// Fields returns the schema as lines: its name and type, and for an object a line for each field.
func (s Schema) Fields(name string) []string {
	properties, _ := s["properties"].(map[string]any)
	if len(properties) == 0 {
		return []string{name + ": " + s.String()}
	}
	lines := []string{name + ":"}
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		lines = append(lines, "  "+field+": "+typeText(properties[field], 1))
	}
	return lines
}

// maxText is how deep the text of a schema goes.
const maxText = 4

func typeText(v any, depth int) string {
	s, ok := v.(map[string]any)
	if schema, is := v.(Schema); is {
		s, ok = schema, true
	}
	if !ok {
		return "any"
	}
	if depth > maxText {
		return "…"
	}
	if text := alternatives(s, depth); text != "" {
		return text
	}
	switch kindOf(s) {
	case "object":
		return objectText(s, depth)
	case "array":
		return arrayText(s, depth)
	case "string":
		format, _ := s["format"].(string)
		return cmp.Or(format, "string")
	case "":
		title, _ := s["title"].(string)
		return cmp.Or(title, "any")
	default:
		return kindOf(s)
	}
}

// kindOf returns the type of a schema that is not "null".
func kindOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
	}
	return ""
}

// alternatives returns the text of a schema that is one of several, or of given values.
func alternatives(s map[string]any, depth int) string {
	var list []string
	for _, key := range []string{"anyOf", "oneOf"} {
		options, _ := s[key].([]any)
		for _, o := range options {
			if m, ok := o.(map[string]any); ok && m["type"] == "null" {
				continue
			}
			if text := typeText(o, depth+1); !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	values, _ := s["enum"].([]any)
	for _, v := range values {
		if text, err := json.Marshal(v); err == nil && v != nil {
			list = append(list, string(text))
		}
	}
	return strings.Join(list, " | ")
}

func objectText(s map[string]any, depth int) string {
	properties, _ := s["properties"].(map[string]any)
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fields = append(fields, name+": "+typeText(properties[name], depth+1))
	}
	if values, ok := s["additionalProperties"].(map[string]any); ok && len(fields) == 0 {
		fields = append(fields, "*: "+typeText(values, depth+1))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func arrayText(s map[string]any, depth int) string {
	items, ok := s["prefixItems"].([]any)
	if !ok {
		return typeText(s["items"], depth+1) + "[]"
	}
	var list []string
	for _, item := range items {
		list = append(list, typeText(item, depth+1))
	}
	return "[" + strings.Join(list, ", ") + "]"
}
