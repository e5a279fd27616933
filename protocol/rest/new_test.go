package rest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tandem-rpc/tandem/protocol/rest"
)

func TestNewFails(t *testing.T) {
	const message = "message M { string a = 1; repeated string b = 2; M m = 3; map<string, string> c = 4; }"
	for i, c := range []struct{ rules, want string }{
		{`get: "/v1/{a"`, `.Do: path "/v1/{a": a variable has no end: "a"`},
		{`get: "/v1/{x}"`, `.Do: variable x of /v1/{x}: test.bad.M has no field "x"`},
		{`get: "/v1/{b}"`, `.Do: variable b of /v1/{b}: test.bad.M.b is not a single value`},
		{`get: "/v1/{m}"`, `.Do: variable m of /v1/{m}: test.bad.M.m is not a single value`},
		{`get: "/v1/{a.x}"`, `.Do: variable a.x of /v1/{a.x}: test.bad.M.a is no message with fields`},
		{`get: "/v1" body: "*"`, `.Do: GET has no body`},
		{`post: "/v1" body: "x"`, `.Do: body "x": test.bad.M has no such field`},
		{`post: "/v1" body: "m.a"`, `.Do: body "m.a": test.bad.M has no such field`},
		{`post: "/v1" response_body: "x"`, `.Do: response_body "x": test.bad.M has no such field`},
		{`custom: { kind: "get" path: "/v1" }`, `.Do: custom kind "get" is no verb of HTTP`},
		{`body: "*"`, `.Do: a rule of google.api.http has no path`},
		{`get: "/v1/{a=x/*}" additional_bindings { get: "/v1/x/{m.a}" }`, `.Do: GET /v1/x/{m.a=*} has the same requests as GET /v1/{a=x/*} of test.bad.S.Do`},
	} {
		pkg := fmt.Sprintf("test.bad%d", i)
		_, err := compile(pkg+".proto", message+fmt.Sprintf(`service S { rpc Do(M) returns (M) { option (google.api.http) = { %s }; } }`, c.rules))
		must(t, err)
		_, err = rest.New(pkg + ".S")
		if want := "rest: test.bad.S" + c.want; err == nil || strings.ReplaceAll(err.Error(), pkg, "test.bad") != want {
			t.Errorf("%s: %v, want %s", c.rules, err, want)
		}
	}
	if _, err := library(); err != nil {
		t.Fatal(err)
	}
	_, err := compile("test.plain.proto", message+"service S { rpc Do(M) returns (M); }")
	must(t, err)
	for name, want := range map[string]string{
		"test.library.v1.None": `rest: service "test.library.v1.None": proto: not found: link its generated code`,
		"test.library.v1.Book": `rest: "test.library.v1.Book" is no service`,
		"test.plain.S":         `rest: no method of service "test.plain.S" has the option google.api.http`,
	} {
		if _, err := rest.New(name); err == nil || strings.ReplaceAll(err.Error(), "\u00a0", " ") != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := rest.New(); err == nil || !strings.Contains(err.Error(), "test.bad0.S.Do") { // of all that are linked
		t.Error(err)
	}
}

// Any path and query sets fields or is an error.
func FuzzBind(f *testing.F) {
	file, err := library()
	if err != nil {
		f.Fatal(err)
	}
	routes, err := rest.New("test.library.v1.Library")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("/v1/shelves/1:last", "title=T&cover=AA&mask=a")
	f.Add("/v1/by/x/y/z", "weight=NaN&oneof=1")
	f.Add("/v1/files/a/b:raw", "author.friend.friend.friend.born=1&room=1&floor=2")
	methods := file.Services().Get(0).Methods()
	f.Fuzz(func(t *testing.T, path, query string) {
		for _, verb := range []string{"GET", "POST", "PATCH", "PURGE"} {
			r := routes.Route(&http.Request{Method: verb, URL: &url.URL{Path: path, RawQuery: query}})
			if r == nil || r.Method == "" {
				continue
			}
			m := dynamicpb.NewMessage(methods.ByName(protoreflect.FullName(r.Method).Name()).Input())
			if r.Bind(m) == nil {
				if _, err := protojson.Marshal(m); err != nil && !strings.Contains(err.Error(), "range") && !strings.Contains(err.Error(), "FieldMask") && !strings.Contains(err.Error(), "UTF-8") {
					t.Fatal(err)
				}
			}
		}
	})
}
