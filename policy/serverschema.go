package policy

import (
	"encoding/json"
	"reflect"
	"strings"
)

// ServerSchema returns the JSON Schema (draft 2020-12) of a server's policy. It is the content of
// docs/server-policy.schema.json.
func ServerSchema() []byte {
	s := serverObject(reflect.TypeFor[Server]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "tandem server policy"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // it is made of strings and numbers
	}
	return append(text, '\n')
}

// serverObject is object for the types of a server's policy.
func serverObject(t reflect.Type) schema {
	properties := schema{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		properties[name] = serverValue(t.Name()+"."+f.Name, f.Type)
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if names := required(t); names != nil {
		s["required"] = names
	}
	return s
}

func serverValue(field string, t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[ServerMethod](), reflect.TypeFor[Limit]():
		return serverObject(t)
	case reflect.TypeFor[*Limit]():
		return serverObject(t.Elem())
	}
	switch field {
	case "Server.Kind":
		return schema{"const": KindServer}
	case "Server.Version":
		return value("Policy.Version", t)
	case "Server.Methods":
		return schema{
			"type": "object", "additionalProperties": serverObject(t.Elem()),
			"propertyNames": schema{"pattern": `^[\s\S]+\.[^.]+$`}, "maxProperties": maxMethods,
		}
	case "ServerMethod.Criticality":
		return schema{"enum": Criticalities()}
	case "ServerMethod.Allow", "ServerMethod.Deny":
		name := schema{"type": "string", "minLength": 1, "maxLength": maxCallerName, "pattern": `^[^*]*\*?$`}
		return schema{"type": "array", "items": name, "maxItems": maxCallers}
	case "Limit.Rate":
		return schema{"type": "number", "minimum": 0, "maximum": maxLimit}
	case "Limit.Burst", "Limit.AtOnce":
		return schema{"type": "integer", "minimum": 0, "maximum": maxLimit}
	}
	return value(field, t)
}
