// Package rest (experimental) serves methods of Protocol Buffers services at the paths that their
// definitions give them with google.api.http:
//
//	routes, err := rest.New("shop.v1.Carts")
//	…
//	srv := server.New(server.WithProtocols(web.New(web.WithRouter(routes))))
//	err = srv.RegisterName("shop.v1.Carts", carts{})
//
// A rule such as
//
//	rpc Move(MoveRequest) returns (Cart) {
//	  option (google.api.http) = { post: "/v1/{name=carts/*}:move" body: "*" };
//	}
//
// makes POST /v1/carts/7:move a call of Move. The rules of
// https://github.com/googleapis/googleapis/blob/master/google/api/http.proto hold for templates,
// bodies, query parameters, response bodies, custom verbs and additional bindings. What is no path
// of a rule is served as without this package.
//
// Fields of the path are taken before those of the body. A query parameter that the message does
// not have is refused, as is one beside the body "*". Segments are decoded; a path with an encoded
// slash is refused. A page of another site must send JSON to be able to call by POST, which its
// browser asks for permission ([web.WithCORS]).
package rest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tandem-rpc/tandem/protocol/web"
)

// New returns the routes of services, for [web.WithRouter]: full names of services whose generated
// code is linked into the program, or without names all of these that have rules. It fails if a
// rule is invalid, a service is unknown or has no rules, or two rules have the same requests.
func New(services ...string) (web.Router, error) {
	r := &router{tree: &node{}}
	if len(services) == 0 {
		if err := r.addAll(); err != nil {
			return nil, err
		}
		return r, nil
	}
	for _, name := range services {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			return nil, fmt.Errorf("rest: service %q: %w: link its generated code", name, err)
		}
		service, ok := d.(protoreflect.ServiceDescriptor)
		if !ok {
			return nil, fmt.Errorf("rest: %q is no service", name)
		}
		before := len(r.paths)
		if err := r.add(service); err != nil {
			return nil, err
		}
		if len(r.paths) == before {
			return nil, fmt.Errorf("rest: no method of service %q has the option google.api.http", name)
		}
	}
	return r, nil
}

// router is the [web.Router].
type router struct {
	tree  *node
	paths []web.Path
}

func (r *router) addAll() (err error) {
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			err = errors.Join(err, r.add(f.Services().Get(i)))
		}
		return true
	})
	return err
}

// add adds the rules of a service.
func (r *router) add(service protoreflect.ServiceDescriptor) error {
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		rule, err := ruleOf(m)
		switch {
		case err != nil:
			return fmt.Errorf("rest: %s: %w", m.FullName(), err)
		case rule == nil:
			continue
		}
		for _, one := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			if err := r.addRule(m, one); err != nil {
				return fmt.Errorf("rest: %w", err)
			}
		}
	}
	return nil
}

// ruleOf returns the rule of a method, nil if it has none. The options of a definition that was
// made at run time have types of their own, so they are decoded again.
func ruleOf(m protoreflect.MethodDescriptor) (*annotations.HttpRule, error) {
	b, err := proto.Marshal(m.Options())
	if err != nil {
		return nil, err
	}
	var options descriptorpb.MethodOptions
	if err := proto.Unmarshal(b, &options); err != nil {
		return nil, err
	}
	rule, _ := proto.GetExtension(&options, annotations.E_Http).(*annotations.HttpRule)
	return rule, nil
}

func (r *router) addRule(m protoreflect.MethodDescriptor, rule *annotations.HttpRule) error {
	added, err := newRoute(m, rule)
	if err != nil {
		return fmt.Errorf("%s: %w", m.FullName(), err)
	}
	if err := r.tree.add(added); err != nil {
		return err
	}
	r.paths = append(r.paths, added.describe())
	return nil
}

// Paths describes all routes.
func (r *router) Paths() []web.Path { return r.paths }

// Route returns the route of a request.
func (r *router) Route(req *http.Request) *web.Route {
	found, segments, allow := r.tree.find(req.Method, req.URL.Path)
	switch {
	case found == nil && len(allow) == 0:
		return nil
	case found == nil:
		return &web.Route{Allow: allow}
	}
	query := sync.OnceValues(func() (url.Values, error) { return url.ParseQuery(req.URL.RawQuery) })
	out := &web.Route{Method: string(found.method), Bind: func(m proto.Message) error {
		values, err := query()
		if err != nil {
			return err
		}
		return found.bind(m.ProtoReflect(), segments, values)
	}}
	switch {
	case found.whole:
		out.Body = "*"
	case found.body != nil:
		out.Body = found.body.JSONName()
	}
	if found.result != nil {
		out.Result = func(m proto.Message) ([]byte, error) { return fieldJSON(m, found.result) }
	}
	return out
}

// route is a rule of a method.
type route struct {
	method   protoreflect.FullName
	verb     string // HTTP's
	template *template
	fields   []fieldPath // of the template's variables
	input    protoreflect.MessageDescriptor
	whole    bool                         // the body is the message
	body     protoreflect.FieldDescriptor // the field that is the body; nil for none
	result   protoreflect.FieldDescriptor // the field that is the response; nil for the message
}

func newRoute(m protoreflect.MethodDescriptor, rule *annotations.HttpRule) (*route, error) {
	r := &route{method: m.FullName(), input: m.Input(), whole: rule.GetBody() == "*"}
	verb, path, err := pattern(rule)
	if err != nil {
		return nil, err
	}
	if r.verb = verb; r.verb == http.MethodGet && rule.GetBody() != "" {
		return nil, errors.New("GET has no body")
	}
	if r.template, err = parse(path); err != nil {
		return nil, err
	}
	for _, v := range r.template.variables {
		f, err := findField(m.Input(), v.field)
		if err == nil {
			err = f.fitsPath()
		}
		if err != nil {
			return nil, fmt.Errorf("variable %s of %s: %w", v.field, path, err)
		}
		r.fields = append(r.fields, f)
	}
	if name := rule.GetBody(); name != "" && !r.whole {
		if r.body = m.Input().Fields().ByName(protoreflect.Name(name)); r.body == nil {
			return nil, fmt.Errorf("body %q: %s has no such field", name, m.Input().FullName())
		}
	}
	if name := rule.GetResponseBody(); name != "" {
		if r.result = m.Output().Fields().ByName(protoreflect.Name(name)); r.result == nil {
			return nil, fmt.Errorf("response_body %q: %s has no such field", name, m.Output().FullName())
		}
	}
	return r, nil
}

// pattern returns HTTP's verb and the template of a rule.
func pattern(rule *annotations.HttpRule) (verb, path string, err error) {
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, p.Get, nil
	case *annotations.HttpRule_Put:
		return http.MethodPut, p.Put, nil
	case *annotations.HttpRule_Post:
		return http.MethodPost, p.Post, nil
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, p.Delete, nil
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, p.Patch, nil
	case *annotations.HttpRule_Custom:
		if kind := p.Custom.GetKind(); kind != "" && strings.ToUpper(kind) == kind {
			return kind, p.Custom.GetPath(), nil
		}
		return "", "", fmt.Errorf("custom kind %q is no verb of HTTP", p.Custom.GetKind())
	}
	return "", "", errors.New("a rule of google.api.http has no path")
}

// describe describes the route for OpenAPI.
func (r *route) describe() web.Path {
	path, names := r.template.openAPI()
	p := web.Path{Verb: r.verb, Path: path, Method: string(r.method)}
	for i, f := range r.fields {
		for _, name := range names[i] {
			p.Params = append(p.Params, web.Parameter{Name: name, Field: f.last()})
		}
	}
	switch {
	case r.whole:
		p.Body = "*"
	case r.body != nil:
		p.Body = r.body.JSONName()
		fallthrough
	default:
		p.Params = append(p.Params, r.queryParams(r.input, "", 0)...)
	}
	if r.result != nil {
		p.Result = r.result.JSONName()
	}
	return p
}
