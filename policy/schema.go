package policy

//go:generate go test -run SchemaIsPublished -write-schema .

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Schema returns the JSON Schema (draft 2020-12) of a policy, made from the types of this
// package. It is the content of docs/policy.schema.json.
func Schema() []byte {
	s := object(reflect.TypeFor[Policy]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "tandem client policy"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // it is made of strings and numbers
	}
	return append(text, '\n')
}

// durations matches what [time.ParseDuration] takes, without a sign. (It takes both letters
// that look like a mu.)
const durations = `^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^0$`

// lowerCase matches keys of metadata.
const lowerCase = `^[^A-Z]*$`

type schema = map[string]any

// object returns the schema of a struct: its fields, and no others.
func object(t reflect.Type) schema {
	properties := schema{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		properties[name] = value(t.Name()+"."+f.Name, f.Type)
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if names := required(t); names != nil {
		s["required"] = names
	}
	return s
}

// value returns the schema of a field.
func value(field string, t reflect.Type) schema {
	if t == reflect.TypeFor[Duration]() {
		return schema{"type": "string", "pattern": durations, "examples": []string{"250ms", "1.5s"}}
	}
	if t == reflect.TypeFor[time.Time]() {
		return schema{"type": "string", "format": "date-time"}
	}
	if s := degradeValue(field); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return value(field, t.Elem())
	case reflect.Struct:
		return object(t)
	case reflect.Map:
		return pairs(field, t)
	case reflect.Slice:
		return list(field, t)
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Float64:
		return number(field, t.Kind())
	case reflect.String:
		return text(field)
	}
	panic(fmt.Sprintf("policy: %s has no schema", field)) // a test calls this for all fields
}

// number returns the schema of a number.
func number(field string, k reflect.Kind) schema {
	switch {
	case k == reflect.Int:
		return whole(field)
	case field == "Ejection.LatencyFactor":
		return schema{"type": "number", "anyOf": []schema{{"const": 0}, {"exclusiveMinimum": 1}}}
	case field == "Share.Percent":
		return schema{"type": "number", "minimum": 0, "maximum": 100}
	}
	return schema{"type": "number", "minimum": 0, "maximum": 1}
}

func whole(field string) schema {
	s := schema{"type": "integer", "minimum": 0}
	switch field {
	case "Method.Retries":
		s["maximum"] = 10
	case "Budget.PerSecond":
		s["maximum"] = 1_000_000
	case "Ejection.Consecutive", "Breaker.Consecutive":
		delete(s, "minimum") // negative means never
	case "Subset.Weight":
		s["maximum"] = MaxSubsetWeight
	}
	return s
}

// pairs returns the schema of a map.
func pairs(field string, t reflect.Type) schema {
	s := schema{"type": "object", "additionalProperties": value(field, t.Elem())}
	if field == "Policy.Methods" {
		s["propertyNames"], s["maxProperties"] = schema{"pattern": `^[\s\S]+\.[^.]+$`}, maxMethods
		return s
	}
	names := schema{"minLength": 1, "maxLength": maxRouteText}
	if field == "Match.Metadata" {
		names["pattern"] = lowerCase
	}
	s["propertyNames"], s["maxProperties"] = names, maxRouteList
	return s
}

// list returns the schema of a slice.
func list(field string, t reflect.Type) schema {
	most := maxRouteList
	switch field {
	case "Policy.Routes":
		most = MaxRoutes
	case "Route.To", "Route.Fallback":
		most = maxSubsets
	}
	s := schema{"type": "array", "items": value(field, t.Elem()), "maxItems": most}
	if field == "Route.To" {
		s["minItems"] = 1
	}
	return s
}

func text(field string) schema {
	switch field {
	case "Method.FailMode":
		return schema{"enum": FailModes()}
	case "Balancer.Pick":
		return schema{"enum": Picks()}
	case "Key.Metadata", "Share.Metadata":
		return schema{"type": "string", "pattern": lowerCase, "minLength": 1, "maxLength": maxRouteText}
	case "Route.IfEmpty":
		return schema{"enum": emptyActions()}
	case "Match.Methods":
		return schema{"type": "string", "pattern": `^[^*]+\.([^.*]+\*?|\*)$`, "maxLength": maxRouteText}
	case "Subset.Addresses", "Labels.Addresses":
		return schema{"type": "string", "pattern": `^\*?[^*]*\*?$`, "minLength": 1, "maxLength": maxRouteText}
	case "Policy.Version":
		return schema{"type": "string", "minLength": 1, "maxLength": 128}
	case "Change.By", "Change.Why":
		return schema{"type": "string", "minLength": 1, "maxLength": MaxReason}
	}
	s := schema{"type": "string", "minLength": 1}
	switch kind, name, _ := strings.Cut(field, "."); {
	case name == "Regexp":
		s["maxLength"] = maxExpression
	case kind == "Route", kind == "Match", kind == "Text", kind == "Key", kind == "Share", kind == "Subset", kind == "Labels":
		s["maxLength"] = maxRouteText
	}
	return s
}
