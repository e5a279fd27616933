package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Tree has a field for each kind of JSON value that Go types map to.
type Tree struct {
	Name     string `json:"name"`
	Children []*Tree
	Weights  map[string]float64 `json:"weights,omitempty"`
	When     time.Time
	Raw      json.RawMessage
	Bytes    []byte
	Small    int8  `json:"small"`
	Quoted   int64 `json:",string"`
	Hidden   int   `json:"-"`
	Pair
}

// get reads a value by its path in a document.
func get(doc any, path ...string) any {
	for _, p := range path {
		m, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = m[p]
	}
	return doc
}

func TestOpenAPI(t *testing.T) {
	w := newWebTest(t, web.New(web.WithPages()))
	w.must(w.srv.RegisterName("Arith", arith{}, server.ForMethod("Mul", server.MethodSafe())))
	w.must(w.srv.RegisterFunc("Grow", func(t Tree) *Tree { return &t }))
	w.must(w.srv.RegisterFunc("Clock.Now", timestamppb.Now))
	w.must(server.HandleStream(w.srv, "Numbers.Sum", sum))
	w.must(w.srv.RegisterFunc("Raw", func(context.Context, *tandem.Call) error { return nil }))
	a := w.do(w.h1, "GET /openapi.json", "", "")
	var doc map[string]any
	w.must(json.Unmarshal([]byte(a.Body), &doc))
	if doc["openapi"] != "3.1.0" || get(doc, "paths", "/Numbers/Sum", "post", "x-tandem-kind") != "stream" {
		t.Error(a.Body)
	}
	if schema, ok := get(doc, "paths", "/Raw", "post", "requestBody", "content", "application/json", "schema").(map[string]any); !ok || len(schema) > 0 {
		t.Errorf("types that are not known are %v", schema)
	}
	mul, _ := get(doc, "paths", "/Arith/Mul").(map[string]any)
	if mul["get"] == nil || mul["post"] == nil || get(doc, "paths", "/Arith/Div", "get") != nil {
		t.Errorf("methods of Arith.Mul: %v", mul)
	}
	request := get(mul, "post", "requestBody", "content", "application/json", "schema", "$ref")
	if request != "#/components/schemas/web_test.Pair" {
		t.Errorf("request of Arith.Mul is %v", request)
	}
	tree, _ := get(doc, "components", "schemas", "web_test.Tree", "properties").(map[string]any)
	b, err := json.Marshal(tree)
	w.must(err)
	want := `{"A":I,"B":I,"Bytes":{"contentEncoding":"base64","format":"byte","type":["string","null"]},` +
		`"Children":{"items":{"$ref":"#/components/schemas/web_test.Tree"},"type":["array","null"]},"Quoted":{"type":["string","null"]},"Raw":{},` +
		`"When":T,"name":{"type":["string","null"]},` +
		`"small":{"maximum":127,"minimum":-128,"type":["integer","null"]},` +
		`"weights":{"additionalProperties":{"type":["number","null"]},"type":["object","null"]}}`
	got := strings.ReplaceAll(string(b), `{"maximum":9223372036854776000,"minimum":-9223372036854776000,"type":["integer","null"]}`, "I")
	when, err := json.Marshal(get(tree, "When"))
	w.must(err)
	if got = strings.Replace(got, string(when), "T", 1); got != want || get(tree, "When", "format") != "date-time" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := get(doc, "paths", "/Clock/Now", "post", "responses", "200", "content", "application/json", "schema", "format"); got != "date-time" {
		t.Errorf("a message's own JSON is %v", got)
	}
}

func TestPages(t *testing.T) {
	w := newWebTest(t, web.New(web.WithPages()))
	for _, path := range []string{"/", "/page.js", "/page.css"} {
		a := w.do(w.h1, "GET "+path, "", "")
		policy := a.Header.Get("Content-Security-Policy")
		if a.StatusCode != http.StatusOK || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(a.Body, "://") {
			t.Errorf("%s: %d %s", path, a.StatusCode, policy)
		}
	}
	w = newWebTest(t, web.New())
	for _, path := range []string{"/", "/openapi.json"} {
		if a := w.do(w.h1, "GET "+path, "", ""); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s is there, and nobody has asked: %d", path, a.StatusCode)
		}
	}
}

func TestCORS(t *testing.T) {
	const shop = "https://shop.test"
	for _, c := range []struct {
		rule      *web.CORS
		origin    string
		preflight bool
		want      map[string]string // fields of the response's header
	}{
		{nil, shop, true, map[string]string{"Access-Control-Allow-Origin": "", "Vary": ""}},
		{nil, shop, false, map[string]string{"Access-Control-Allow-Origin": ""}},
		{&web.CORS{Origins: []string{shop}}, "https://other.test", true, map[string]string{"Access-Control-Allow-Origin": "", "Vary": "Origin"}},
		{&web.CORS{Origins: []string{shop}}, "", false, map[string]string{"Access-Control-Allow-Origin": "", "Vary": "Origin"}},
		{&web.CORS{Origins: []string{"*"}, Credentials: true}, shop, false, map[string]string{"Access-Control-Allow-Origin": ""}},
		{&web.CORS{Origins: []string{"*"}}, shop, false, map[string]string{"Access-Control-Allow-Origin": shop, "Access-Control-Allow-Credentials": ""}},
		{&web.CORS{Origins: []string{shop}, Headers: []string{"Authorization"}, Credentials: true}, shop, true, map[string]string{
			"Access-Control-Allow-Origin": shop, "Access-Control-Allow-Credentials": "true", "Access-Control-Allow-Methods": "GET, POST",
		}},
	} {
		opts := []web.Option{}
		if c.rule != nil {
			opts = append(opts, web.WithCORS(*c.rule))
		}
		w := newWebTest(t, web.New(opts...))
		w.must(w.srv.RegisterFunc("Len", func(s string) int { return len(s) }))
		method := http.MethodPost
		if c.preflight {
			method = http.MethodOptions
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://tandem.test/Len", strings.NewReader(`"a"`))
		w.must(err)
		req.Header = http.Header{"Origin": {c.origin}, "Content-Type": {asJSON}}
		if c.preflight {
			req.Header.Set("Access-Control-Request-Method", "POST")
		}
		res, err := w.h1.Do(req)
		w.must(err)
		w.must(res.Body.Close())
		for name, want := range c.want {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%+v from %q: %s is %q, want %q", c.rule, c.origin, name, got, want)
			}
		}
		if c.preflight && c.rule != nil && slices.Contains(c.rule.Headers, "Authorization") && !strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Error(res.Header)
		}
	}
}

// Over protobuf, values that are not messages of Protocol Buffers are refused.
func TestProtobufNeedsMessages(t *testing.T) {
	w := newWebTest(t, web.New())
	w.must(w.srv.RegisterName("Arith", arith{}))
	for path, code := range map[string]tandem.Code{"/Arith/Mul": tandem.InvalidArgument, "/Arith/Div": tandem.Unimplemented} {
		a := w.do(w.h1, "POST "+path, "application/proto", "\x08\x01")
		if want := strings.ReplaceAll(code.String(), " ", "_"); !strings.Contains(a.Body, want) {
			t.Errorf("%s: %s, want %s", path, a.Body, want)
		}
	}
}

// The description says that a Protocol Buffers message is not null, and the server refuses
// null for it. A Go string may be null.
func TestNullIsDescribed(t *testing.T) {
	w := newWebTest(t, web.New(web.WithPages()))
	w.must(w.srv.RegisterFunc("Clock.Set", func(*timestamppb.Timestamp) {}))
	w.must(w.srv.RegisterFunc("Clock.Name", func(string) {}))
	var doc any
	w.must(json.Unmarshal([]byte(w.do(w.h1, "GET /openapi.json", "", "").Body), &doc))
	for path, want := range map[string]struct {
		kinds  []any
		status int
	}{
		"/Clock/Set":  {[]any{"string"}, http.StatusBadRequest},
		"/Clock/Name": {[]any{"string", "null"}, http.StatusOK},
	} {
		kinds := get(doc, "paths", path, "post", "requestBody", "content", asJSON, "schema", "type")
		if a := w.do(w.h1, "POST "+path, asJSON, "null"); !reflect.DeepEqual(kinds, want.kinds) || a.StatusCode != want.status {
			t.Errorf("%s takes %v, and answers null with %d", path, kinds, a.StatusCode)
		}
	}
}
