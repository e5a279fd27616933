package web

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/jsonschema"
	"github.com/tandem-rpc/tandem/server"
)

// kindField is the field of an operation that is no unary method at its own path, with the kind.
// moreField is the field of a path with operations by verbs that OpenAPI 3.1 has no place for.
const (
	moreField  = "x-tandem-operations"
	kindField  = "x-tandem-kind"
	kindStream = "stream"
	kindRoute  = "route"
)

// streamPath describes a stream.
func (s paths) streamPath(m *server.Method) object {
	definition := protoMethod(m.Name)
	in := s.messageOf(m.In)
	post := s.stream(m)
	post["operationId"] = m.Name
	request := object{typeLines: messageList(in, typeLines, "One message a line.")}
	if definition == nil || !definition.IsStreamingClient() {
		request[typeJSON] = object{"schema": in}
	}
	post["requestBody"] = object{"required": true, "content": request}
	operations := object{"post": post}
	if m.Safe {
		get := s.stream(m)
		get["operationId"] = m.Name + ".get"
		get["parameters"] = []object{{"name": "message", "in": "query", "content": inJSON(in)}}
		operations["get"] = get
	}
	return operations
}

// stream describes a call of a stream, without its request.
func (s paths) stream(m *server.Method) object {
	definition, out := protoMethod(m.Name), s.messageOf(m.Out)
	content := object{
		typeLines:  messageList(out, typeLines, "One message a line. If the stream fails, the last line is an object with the field error."),
		typeEvents: messageList(out, typeEvents, "One message an event. The last event is named end, or error with an error."),
	}
	if definition == nil || !definition.IsStreamingServer() {
		content[typeJSON] = object{"schema": out}
	}
	operation := answered(m, content)
	operation[kindField] = kindStream
	return operation
}

// messageList is the content of a body with several messages: text, as OpenAPI 3.1 has no more.
func messageList(message object, kind, what string) object {
	return object{"schema": object{"type": "string", "description": what, "contentMediaType": kind, "contentSchema": message}}
}

// messageOf returns the schema of a stream's messages.
func (s paths) messageOf(t reflect.Type) object {
	if t == nil {
		return object{}
	}
	return s.Argument(t)
}

// addRoutes describes the paths of a router whose methods are registered.
func (s paths) addRoutes(all object, methods []*server.Method, routes []Path) {
	byName := make(map[string]*server.Method, len(methods))
	for _, m := range methods {
		byName[m.Name] = m
	}
	ids, shapes := map[string]int{}, map[string]string{}
	for _, p := range routes {
		m := byName[p.Method]
		p = sameNames(p, shapes)
		if m == nil || p.Verb == anyVerb {
			continue
		}
		operations, verb := child(all, p.Path), strings.ToLower(p.Verb)
		if !isOpenAPIVerb(p.Verb) {
			operations, verb = child(operations, moreField), p.Verb
		}
		if operations[verb] != nil {
			continue // a method's own path comes first
		}
		operation := s.route(m, p)
		ids[p.Method]++
		operation["operationId"] = fmt.Sprintf("%s.%s.%d", p.Method, verb, ids[p.Method])
		operations[verb] = operation
	}
}

// anyVerb is the verb of a path that takes all of them.
const anyVerb = "*"

// child returns an object in another one, which it adds if it is not there.
func child(o object, name string) object {
	c, _ := o[name].(object)
	if c == nil {
		c = object{}
		o[name] = c
	}
	return c
}

// variable matches a variable of a path.
var variable = regexp.MustCompile(`\{[^}]*\}`)

// sameNames returns a path with the names of variables that an earlier path with the same
// requests has: OpenAPI has one place for both.
func sameNames(p Path, shapes map[string]string) Path {
	shape := variable.ReplaceAllString(p.Path, "{}")
	first, known := shapes[shape]
	if !known || first == p.Path {
		shapes[shape] = p.Path
		return p
	}
	names := variable.FindAllString(first, -1)
	own := p.Params
	p.Params = slices.Clone(own)
	for i, name := range variable.FindAllString(p.Path, -1) {
		for k := range own {
			if q := own[k]; !q.Query && "{"+q.Name+"}" == name {
				p.Params[k].Name = strings.Trim(names[i], "{}")
				break
			}
		}
	}
	p.Path = first
	return p
}

func isOpenAPIVerb(verb string) bool {
	switch verb {
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodHead, http.MethodPatch, http.MethodTrace:
		return true
	}
	return false
}

// route describes a route of a method.
func (s paths) route(m *server.Method, p Path) object {
	in, out := routeTypes(m)
	operation := s.stream(m)
	if m.Kind != tandem.Streaming {
		operation = answered(m, inJSON(s.part(out, p.Result)))
	}
	operation[kindField] = kindRoute
	var parameters []object
	for _, param := range p.Params {
		o := object{"name": param.Name, "in": "path", "required": true, "schema": s.Param(param.Field)}
		if param.Query {
			o["in"], o["required"] = "query", false
		}
		parameters = append(parameters, o)
	}
	if parameters != nil {
		operation["parameters"] = parameters
	}
	switch p.Body {
	case "":
		return operation
	case "*":
		operation["requestBody"] = object{"content": inJSON(s.part(in, ""))}
	default:
		operation["requestBody"] = object{"content": inJSON(s.part(in, p.Body))}
	}
	return operation
}

// routeTypes returns the messages of a method, nil where they are not known.
func routeTypes(m *server.Method) (in, out protoreflect.MessageDescriptor) {
	if d := protoMethod(m.Name); d != nil {
		return d.Input(), d.Output()
	}
	if len(m.Args) == 1 && len(m.Results) == 1 {
		return jsonschema.Message(m.Args[0]), jsonschema.Message(m.Results[0])
	}
	return nil, nil
}

// part returns the schema of a message, or of its field with a JSON name.
func (s paths) part(m protoreflect.MessageDescriptor, field string) object {
	switch {
	case m == nil:
		return object{}
	case field == "":
		return s.Message(m)
	}
	if f := m.Fields().ByJSONName(field); f != nil {
		return s.Field(f)
	}
	return object{}
}
