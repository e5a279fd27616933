package web

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/jsonschema"
	"github.com/tandem-rpc/tandem/server"
)

// object is a JSON object.
type object = jsonschema.Object

// paths makes the description of methods.
type paths struct{ *jsonschema.Schemas }

// serveOpenAPI answers with a description of the methods that are registered now.
func (p *protocol) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	b, err := json.Marshal(describe(Conn(r.Context()).Describe(), p.opts.router))
	if err != nil {
		writeError(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
	w.Header().Set("Cache-Control", "no-cache")
	limitAnswer(http.NewResponseController(w), r, Conn(r.Context()), len(b))
	_, _ = w.Write(b) // an error means that the client is gone
}

// describe returns an OpenAPI 3.1 document (https://spec.openapis.org/oas/v3.1.0) with the
// methods that can be called with JSON, at their own paths and at those of a router.
func describe(methods []*server.Method, router Router) object {
	s := paths{jsonschema.New("#/components/schemas/")}
	s.Define("Error", errorSchema())
	all := object{}
	for _, m := range methods {
		if m.Kind == tandem.Streaming {
			all[pathOf(m.Name)] = s.streamPath(m)
		} else {
			all[pathOf(m.Name)] = s.path(m)
		}
	}
	if router != nil {
		s.addRoutes(all, methods, router.Paths())
	}
	return object{
		"openapi":    "3.1.0",
		"info":       object{"title": "Methods of this server", "version": "1"},
		"servers":    []object{{"url": "/"}},
		"paths":      all,
		"components": object{"schemas": s.Defined()},
	}
}

// pathOf returns the path of a method.
func pathOf(name string) string {
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		name = name[:dot] + "/" + name[dot+1:]
	}
	return "/" + name
}

func errorSchema() object {
	text := object{"type": "string"}
	return object{
		"type": "object", "required": []string{"code"},
		"properties": object{
			"code": text, "message": text, "title": text, "status": object{"type": "integer"},
			"details": object{"type": "array", "items": object{
				"type": "object", "properties": object{"type": text, "value": object{"type": "string", "contentEncoding": "base64"}},
			}},
		},
	}
}

// path describes one method.
func (s paths) path(m *server.Method) object {
	request, results := s.Several(m.Args), s.Several(m.Results)
	if d := protoMethod(m.Name); d != nil && m.Args == nil { // a tandem.Func
		request, results = s.Message(d.Input()), s.Message(d.Output())
	}
	post := s.operation(m, results)
	post["operationId"] = m.Name
	post["requestBody"] = object{"required": true, "content": inJSON(request)}
	operations := object{"post": post}
	if m.Safe {
		get := s.operation(m, results)
		get["operationId"] = m.Name + ".get"
		get["parameters"] = []object{{"name": "message", "in": "query", "required": true, "content": inJSON(request)}}
		operations["get"] = get
	}
	return operations
}

func (paths) operation(m *server.Method, results object) object {
	return answered(m, inJSON(results))
}

// answered returns an operation of a method with the content of its response.
func answered(m *server.Method, content object) object {
	service := ""
	if dot := strings.LastIndexByte(m.Name, '.'); dot > 0 {
		service = m.Name[:dot]
	}
	refError := object{"$ref": "#/components/schemas/Error"}
	failed := inJSON(refError)
	failed["application/problem+json"] = object{"schema": refError}
	return object{
		"tags": []string{service},
		"responses": object{
			"200":     object{"description": "The method's results.", "content": content},
			"default": object{"description": "An error. The HTTP status follows its code.", "content": failed},
		},
	}
}

func inJSON(schema object) object { return object{"application/json": object{"schema": schema}} }
