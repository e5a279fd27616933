package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/rest"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

const definition = `
	syntax = "proto3";
	package shop.v1;
	import "google/api/annotations.proto";
	import "google/protobuf/timestamp.proto";
	enum Size { NONE = 0; SMALL = 1; }
	message Cart { string name = 1; repeated Size sizes = 2; Cart parent = 3; google.protobuf.Timestamp at = 4; uint64 serial = 5; repeated int64 numbers = 6; }
	service Carts {
		rpc Get(Cart) returns (Cart) { option (google.api.http) = { get: "/v1/{name=carts/*}" additional_bindings { get: "/v1/{parent.name=shops/*/carts/*}/{name}" } }; }
		rpc Put(Cart) returns (Cart) { option (google.api.http) = { put: "/v1/carts/{serial}" body: "numbers" response_body: "numbers" additional_bindings { custom: { kind: "MOVE" path: "/v1/carts" } } }; }
		rpc Follow(Cart) returns (stream Cart) { option (google.api.http).get = "/v1/{name=carts/*}:follow"; }
	}`

// Tree is a type of Go.
type Tree struct {
	Name     string
	Children []*Tree
	Weights  map[string]float64
	Raw      json.RawMessage
}

// routes returns the routes of the definition.
func routes(t *testing.T) (web.Router, protoreflect.ServiceDescriptor) {
	t.Helper()
	sources := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		if path == "shop.proto" {
			return protocompile.SearchResult{Source: strings.NewReader(definition)}, nil
		}
		d, err := protoregistry.GlobalFiles.FindFileByPath(path)
		return protocompile.SearchResult{Desc: d}, err
	})
	files, err := (&protocompile.Compiler{Resolver: sources}).Compile(t.Context(), "shop.proto")
	must(t, err)
	must(t, protoregistry.GlobalFiles.RegisterFile(files[0]))
	r, err := rest.New("shop.v1.Carts")
	must(t, err)
	return r, files[0].Services().Get(0)
}

// serve serves methods of all kinds, and returns where.
func serve(t *testing.T) string {
	t.Helper()
	router, carts := routes(t)
	srv := server.New(server.WithProtocols(web.New(web.WithPages(), web.WithRouter(router))))
	must(t, srv.RegisterFunc("Arith.Div", func(a, b int8) (int8, error) { return a / b, nil }, server.MethodSafe()))
	must(t, srv.RegisterFunc("Arith.Nothing", func() error { return nil }))
	must(t, srv.RegisterFunc("Grow", func(t Tree) *Tree { return &t }))
	must(t, srv.RegisterFunc("Clock.Now", timestamppb.Now))
	must(t, srv.RegisterFunc("Clock.Struct", func(s *structpb.Struct) *structpb.Struct { return s }))
	must(t, server.HandleStream(srv, "Trees.Follow", func(_ context.Context, s *tandem.Stream[Tree, Tree]) error { return s.Send(&Tree{}) }, server.MethodSafe()))
	must(t, web.RegisterReflection(srv))
	_, err := web.RegisterHealth(srv)
	must(t, err)
	for _, name := range []string{"Get", "Put"} {
		m := carts.Methods().ByName(protoreflect.Name(name))
		must(t, srv.RegisterFunc(string(m.FullName()), func(_ context.Context, call *tandem.Call) error {
			in := dynamicpb.NewMessage(m.Input())
			if err := call.Body.Decode(in); err != nil {
				return err
			}
			return call.Body.Encode(in)
		}))
	}
	must(t, server.HandleStream(srv, "shop.v1.Carts.Follow", func(context.Context, *tandem.Stream[any, any]) error { return nil }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		must(t, srv.Close())
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func request(t *testing.T, verb, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), verb, url, strings.NewReader(body))
	must(t, err)
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// The document is valid OpenAPI 3.1, and what the server answers is what it says.
func TestDocument(t *testing.T) {
	at := serve(t)
	res, err := http.DefaultClient.Do(request(t, http.MethodGet, at+"/openapi.json", ""))
	must(t, err)
	text, err := io.ReadAll(res.Body)
	must(t, errors.Join(err, res.Body.Close()))
	check := newValidator(t, text)
	if ok, problems := check.ValidateDocument(); !ok {
		for _, p := range problems {
			t.Errorf("%s: %s %v", p.Message, p.Reason, p.SchemaValidationErrors)
		}
	}
	broken := newValidator(t, bytes.Replace(text, []byte(`"responses"`), []byte(`"answers"`), 1))
	if ok, _ := broken.ValidateDocument(); ok {
		t.Error("a document with an operation without responses is valid")
	}
	for _, path := range []string{"/Arith/Div", "/Trees/Follow", "/v1/carts/{name}", "/v1/shops/{parent.name_1}/carts/{parent.name_2}/{name}", "/v1/carts/{name}:follow"} {
		if !bytes.Contains(text, []byte(`"`+path+`":{`)) {
			t.Errorf("%s is not described", path)
		}
	}
	for _, c := range []struct{ verb, path, body string }{
		{http.MethodPost, "/Arith/Div", "[6,3]"},
		{http.MethodPost, "/Arith/Div", "[6]"},
		{http.MethodPost, "/Grow", `{"Name":"a","Children":[{}],"Weights":{"b":1.5}}`},
		{http.MethodPost, "/Clock/Now", "{}"},
		{http.MethodPost, "/shop.v1.Carts/Get", `{"name":"a"}`},
		{http.MethodGet, "/v1/carts/7?sizes=SMALL&parent.name=b&numbers=1&numbers=2", ""},
		{http.MethodPut, "/v1/carts/7", "[1,2]"},
	} {
		r := request(t, c.verb, at+c.path, c.body)
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		ok, problems := check.ValidateHttpResponse(request(t, c.verb, at+c.path, c.body), res)
		if !ok {
			for _, p := range problems {
				t.Errorf("%s %s: %d: %s: %s", c.verb, c.path, res.StatusCode, p.Message, p.Reason)
			}
		}
		must(t, res.Body.Close())
		if ok, problems := check.ValidateHttpRequest(request(t, c.verb, at+c.path, c.body)); ok != (c.body != "[6]") {
			for _, p := range problems {
				t.Errorf("%s %s is no valid request: %s: %s", c.verb, c.path, p.Message, p.Reason)
			}
		}
	}
}

func newValidator(t *testing.T, text []byte) validator.Validator {
	t.Helper()
	document, err := libopenapi.NewDocument(text)
	must(t, err)
	check, errs := validator.NewValidator(document)
	must(t, errors.Join(errs...))
	return check
}
