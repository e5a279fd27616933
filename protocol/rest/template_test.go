package rest

import (
	"fmt"
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"/v1":                            "/v1",
		"/v1/{name}":                     "/v1/{name=*}",
		"/v1/{name=shelves/*/books/*}":   "/v1/{name=shelves/*/books/*}",
		"/v1/{a.b_c=x}/*/{d=**}:do.it":   "/v1/{a.b_c=x}/*/{d=**}:do.it",
		"/{a=x/{b}}":                     `path "/{a=x/{b}}": a variable within a variable before "b}}"`,
		"v1":                             `path "v1": a slash is expected before "v1"`,
		"/":                              `path "/": it ends where a segment is expected`,
		"/v1/":                           `path "/v1/": it ends where a segment is expected`,
		"/v1//a":                         `path "/v1//a": a segment is expected before "/a"`,
		"/v1/..":                         `path "/v1/..": a segment is expected before ".."`,
		"/v1:":                           `path "/v1:": it ends where a verb is expected`,
		"/v1:a/b":                        `path "/v1:a/b": a slash, a verb or the end is expected before "/b"`,
		"/v1/{a":                         `path "/v1/{a": a variable has no end: "a"`,
		"/v1/{a=b":                       `path "/v1/{a=b": it ends where the end of a variable is expected`,
		"/v1/{}":                         `path "/v1/{}": "" is no path of a field`,
		"/v1/{1a}":                       `path "/v1/{1a}": "1a" is no path of a field`,
		"/v1/{a..b}":                     `path "/v1/{a..b}": "a..b" is no path of a field`,
		"/v1/{a}/{a}":                    `path "/v1/{a}/{a}": variable "a" is there twice`,
		"/v1/**/a":                       `path "/v1/**/a": only the last segment may be **`,
		"/v1/a*":                         `path "/v1/a*": a slash, a verb or the end is expected before "*"`,
		"/v1/é":                          `path "/v1/é": a segment is expected before "é"`,
		"/v1/a%20b":                      `path "/v1/a%20b": a slash, a verb or the end is expected before "%20b"`,
		"/v1/{a=**}/{b=**}":              `path "/v1/{a=**}/{b=**}": only the last segment may be **`,
		"/v1/shelves/{shelf.id}/{b=c}:d": "/v1/shelves/{shelf.id=*}/{b=c}:d",
	} {
		parsed, err := parse(text)
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = parsed.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestTemplatesInOpenAPI(t *testing.T) {
	for text, want := range map[string]string{
		"/v1/{name}":                            "/v1/{name} [[name]]",
		"/v1/{name=shelves/*}/books":            "/v1/shelves/{name}/books [[name]]",
		"/v1/{name=shelves/*/books/*}:do":       "/v1/shelves/{name_1}/books/{name_2}:do [[name_1 name_2]]",
		"/v1/*/{a=x}/{b=**}":                    "/v1/{segment_1}/x/{b} [[] [b]]",
		"/v1/{book.name=shelves/*/books/**}:go": "/v1/shelves/{book.name_1}/books/{book.name_2}:go [[book.name_1 book.name_2]]",
	} {
		parsed, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		path, names := parsed.openAPI()
		if got := fmt.Sprint(path, " ", names); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// newTree makes a tree of templates, each for GET.
func newTree(t *testing.T, texts ...string) *node {
	t.Helper()
	n := &node{}
	for _, text := range texts {
		parsed, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.add(&route{verb: "GET", template: parsed}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestFind(t *testing.T) {
	n := newTree(t, "/a/{x=*}", "/a/b", "/{x=*}/b", "/a/{x=**}", "/a/{x=**}:v", "/a/b/{x=*}:v", "/c/{x=*}/d", "/c/e/{x=*}")
	for path, want := range map[string]string{
		"/a/b": "/a/b", "/a/c": "/a/{x=*}", "/x/b": "/{x=*}/b", "/a": "/a/{x=**}", "/a/b/c": "/a/{x=**}", "/a/b:v": "/a/{x=**}:v",
		"/a/b/c:v": "/a/b/{x=*}:v", "/a/b:w": "/a/{x=*}", "/c/e/d": "/c/e/{x=*}", "/c/x/d": "/c/{x=*}/d", "/c/x/e": "", "/": "", "/x": "", "/a/:v": "/a/{x=*}",
	} {
		r, _, allow := n.find("GET", path)
		got := ""
		if r != nil {
			got = r.template.String()
		}
		if got != want || allow != nil {
			t.Errorf("%s: %q %v, want %q", path, got, allow, want)
		}
		if r, _, allow = n.find("POST", path); r != nil || (want != "") != (len(allow) == 1) {
			t.Errorf("POST %s: %v, %v", path, r, allow)
		}
	}
}

// A template that was parsed is the same when it is parsed again, and finds its own path.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"/v1/{name=shelves/*}:merge", "/{a.b=**}", "/a/*/b:c", "/{", "/:", "/{a=}", "//"} {
		f.Add(s)
	}
	const most = (200+50)*len(`\U0010ffff`) + 100 // an error quotes as many characters
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parse(text)
		if err != nil {
			if parsed != nil || len(err.Error()) > most {
				t.Fatal(err)
			}
			return
		}
		again, err := parse(parsed.String())
		if err != nil || again.String() != parsed.String() {
			t.Fatalf("%q becomes %q: %v", text, parsed, err)
		}
		n := &node{}
		if err := n.add(&route{verb: "GET", template: parsed}); err != nil {
			t.Fatal(err)
		}
		path, names := parsed.openAPI()
		if len(names) != len(parsed.variables) {
			t.Fatalf("%q has the names %q", text, names)
		}
		path = strings.NewReplacer("{", "x", "}", "x").Replace(path)
		if r, _, _ := n.find("GET", path); r == nil {
			t.Fatalf("%q does not find %q", text, path)
		}
	})
}
