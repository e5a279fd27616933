package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/jsonschema"
	"github.com/tandem-rpc/tandem/server"
)

// Bounds of a Schema, so that its answer is well within the usual limit of a message.
const (
	mostSchemas = 2000
	maxSchema   = 3 << 20
)

// SchemaRequest is the request of Schema, which needs the role [Viewer].
type SchemaRequest struct {
	Service     string `json:"service,omitempty"`     // "" for all services
	Descriptors bool   `json:"descriptors,omitempty"` // with Schema.Descriptors
}

// Schema describes what methods of the servers take and return.
type Schema struct {
	Methods []MethodSchema `json:"methods"` // sorted by name
	// Definitions are the schemas of types, by name. Schemas refer to them as #/definitions/NAME.
	Definitions json.RawMessage `json:"definitions"`
	// Descriptors is a google.protobuf.FileDescriptorSet of the services and messages of Protocol
	// Buffers among them, and of what they import, if the request asks for it.
	Descriptors []byte `json:"descriptors,omitempty"`
}

// MethodSchema describes a method. Its JSON Schemas are of draft 2020-12; of a stream they are
// those of one message.
type MethodSchema struct {
	Method string `json:"method"`
	Kind   string `json:"kind"` // unary, client stream, server stream, bidirectional
	Safe   bool   `json:"safe,omitempty"`
	// Arguments is how many arguments the Go function takes. The request is an array unless it is 1;
	// over tandem's own protocol its elements are sent as several arguments.
	Arguments int             `json:"arguments"`
	Request   json.RawMessage `json:"request"`  // {} if it is not known
	Response  json.RawMessage `json:"response"` // as Request; an array unless there is one result
	// RequestMessage and ResponseMessage are the full names of Protocol Buffers messages; "" for
	// other types. Their JSON is that of Protocol Buffers, which gRPC, Connect and HTTP take.
	RequestMessage  string `json:"requestMessage,omitempty"`
	ResponseMessage string `json:"responseMessage,omitempty"`
}

// schema describes the methods of the servers.
func (a *Admin) schema(_ context.Context, req *SchemaRequest) (*Schema, error) {
	var methods []*server.Method
	seen := map[string]bool{}
	for _, srv := range a.watched() {
		for _, m := range srv.Describe() {
			if !seen[m.Name] && (req.Service == "" || serviceOf(m.Name) == req.Service) {
				seen[m.Name] = true
				methods = append(methods, m)
			}
		}
	}
	if len(methods) > mostSchemas {
		return nil, tandem.Errorf(tandem.ResourceExhausted, "%d methods, and at most %d are described at a time: name a service", len(methods), mostSchemas)
	}
	slices.SortFunc(methods, func(a, b *server.Method) int { return strings.Compare(a.Name, b.Name) })
	types := jsonschema.New("#/definitions/")
	out := &Schema{Methods: []MethodSchema{}}
	size := 0
	for _, m := range methods {
		s, err := schemaOf(types, m)
		if err != nil {
			return nil, err
		}
		size += len(s.Request) + len(s.Response)
		out.Methods = append(out.Methods, *s)
	}
	text, err := json.Marshal(types.Defined())
	if err != nil {
		return nil, err
	}
	if req.Descriptors {
		if out.Descriptors, err = descriptorsOf(methods); err != nil {
			return nil, err
		}
	}
	if size += len(text) + base64.StdEncoding.EncodedLen(len(out.Descriptors)); size > maxSchema {
		return nil, tandem.Errorf(tandem.ResourceExhausted, "the schemas have %d bytes, and at most %d are sent: name a service", size, maxSchema)
	}
	out.Definitions = text
	return out, nil
}

// schemaOf describes a method.
func schemaOf(types *jsonschema.Schemas, m *server.Method) (*MethodSchema, error) {
	s := &MethodSchema{Method: m.Name, Kind: shapeOf(m), Safe: m.Safe, Arguments: 1}
	args, results := m.Args, m.Results
	if m.Kind == tandem.Streaming {
		args, results = only(m.In), only(m.Out)
	}
	if args != nil {
		s.Arguments = len(args)
	}
	s.RequestMessage, s.ResponseMessage = messageOf(args), messageOf(results)
	var err error
	if s.Request, err = json.Marshal(types.Several(args)); err != nil {
		return nil, err
	}
	s.Response, err = json.Marshal(types.Several(results))
	return s, err
}

// only returns a list with one type, nil for none.
func only(t reflect.Type) []reflect.Type {
	if t == nil {
		return nil
	}
	return []reflect.Type{t}
}

// messageOf returns the name of the Protocol Buffers message that is the only type, or "".
func messageOf(types []reflect.Type) string {
	if len(types) != 1 {
		return ""
	}
	if m := jsonschema.Message(types[0]); m != nil {
		return string(m.FullName())
	}
	return ""
}

// shapeOf returns which sides of a method send several messages. A stream of Go types may always
// do so on both; for Protocol Buffers, the definition of the service says it.
func shapeOf(m *server.Method) string {
	if m.Kind != tandem.Streaming {
		return "unary"
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(m.Name))
	if defined, ok := d.(protoreflect.MethodDescriptor); ok && err == nil {
		switch {
		case !defined.IsStreamingServer():
			return "client stream"
		case !defined.IsStreamingClient():
			return "server stream"
		}
	}
	return "bidirectional"
}
