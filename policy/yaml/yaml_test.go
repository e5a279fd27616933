package yaml_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/policy/yaml"
	"github.com/tandem-rpc/tandem/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// document is one of the documents of package policy's tests.
type document struct {
	Text          string `json:"text"`
	Error         string `json:"error"`
	SchemaTakesIt bool   `json:"schemaTakesIt"` // though Parse does not
}

func documents(t testing.TB) (list []document) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "documents.json"))
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) < 50 {
		t.Fatalf("%d documents: %v", len(list), err)
	}
	return list
}

// JSON is YAML: both parsers accept the same documents, with the same meaning.
func TestParseTakesJSON(t *testing.T) {
	for _, d := range documents(t) {
		want, refused := policy.Parse([]byte(d.Text))
		got, err := yaml.Parse([]byte(strings.ReplaceAll(d.Text, "\t", "  "))) // YAML has no tabs
		switch {
		case strings.Contains(d.Text, "1.0}"): // which is 1 then
		case (err == nil) != (refused == nil):
			t.Errorf("%.200s: as YAML %v, as JSON %v", d.Text, err, refused)
		case err == nil && !reflect.DeepEqual(got, want):
			t.Errorf("%.200s: as YAML %+v, as JSON %+v", d.Text, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	p, err := yaml.Parse([]byte(`
# What the shop's clients do.
version: 2026-11-21
balancer:
  pick: p2c
  zone: no          # a string, and so is off below a key
default: {timeout: 1m30s, failMode: failover, retries: 0x2, idempotent: true}
retryBudget: {share: .1, perSecond: 1_0}
methods:
  "Orders.*":
    breaker:
      off: true
  Orders.Get:
    attemptTimeout: >-
      300ms
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &policy.Policy{
		Version: "2026-11-21", Balancer: &policy.Balancer{Pick: "p2c", Zone: "no"},
		Default: policy.Method{Timeout: policy.Duration(90 * time.Second), FailMode: "failover", Retries: new(2), Idempotent: new(true)},
		Budget:  &policy.Budget{Share: 0.1, PerSecond: 10},
		Methods: map[string]policy.Method{
			"Orders.*":   {Breaker: &policy.Breaker{Off: true}},
			"Orders.Get": {AttemptTimeout: policy.Duration(300 * time.Millisecond)},
		},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v", p)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "empty",
		"# nothing":                            "empty",
		"default: [":                           "line 1",
		"{}\n---\n{}":                          "after the end of the document",
		"default: &a {}":                       "line 1: anchors",
		"? default\n: *a":                      "unknown anchor",
		"{default: &a {}, methods: {A.B: *a}}": "anchors",
		"methods:\n  A.B: {}\n  <<: {}":        "line 3: want the name of a field",
		"1: {}":                                "want the name of a field",
		"default: {timeout: 5}":                "default.timeout: 5; want a duration",
		"default: {timeout: 1s}\ndefault: {}":  "twice",
		"default: {retries: !!int '2'}":        "tag",
		"default: {retries: .inf}":             "unsupported value",
		"default: {retries: ~}":                "default.retries: null",
		"default: {failMode: yes}":             "default.failMode",
		"default: {timeout: soon}":             "default.timeout",
		"version: !!binary eA==":               "tag",
		"version: 7":                           "version: 7; want a string",
		"- default":                            "want an object",
		strings.Repeat("{a: ", 40) + strings.Repeat("}", 40): "deep",
		strings.Repeat("#", policy.MaxSize+1):                "limit",
	} {
		if p, err := yaml.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %+v, %v; want an error with %q", text, p, err, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d.Text))
	}
	f.Add([]byte("a: [1, x, ~, 2020-01-01, {b: .5}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := yaml.JSON(text)
		if err == nil && !json.Valid(out) {
			t.Errorf("%q becomes %q", text, out)
		}
	})
}

// A file in YAML is followed, and clients report next to it.
func TestSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("version: one # and only"), 0o600); err != nil {
		t.Fatal(err)
	}
	src := yaml.Source(policy.File(path))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []string
	_ = src.Watch(ctx, func(text []byte, err error) {
		got = append(got, fmt.Sprint(string(text), err))
		switch len(got) {
		case 1:
			err = os.WriteFile(path, []byte("version: ["), 0o600)
		case 2:
			cancel()
		}
		if err != nil && len(got) == 1 {
			t.Error(err)
		}
	})
	if len(got) != 2 || got[0] != `{"version":"one"}<nil>` || !strings.Contains(got[1], "line 1") {
		t.Errorf("delivered %q", got)
	}
	if err := src.(policy.Reporter).Report(t.Context(), policy.Applied{Client: "c", Version: "one"}); err != nil {
		t.Error(err)
	}
	if list, err := src.(policy.Reports).Applied(t.Context()); err != nil || len(list) != 1 || list[0].Version != "one" {
		t.Errorf("%+v, %v", list, err)
	}
}

func ExampleParse() {
	p, err := yaml.Parse([]byte(`
default:
  timeout: 2s
methods:
  Orders.*: {timeout: 500ms, retries: 0}
`))
	fmt.Println(time.Duration(p.For("Orders.Get").Timeout), time.Duration(p.For("Users.Get").Timeout), err)
	_, err = yaml.Parse([]byte("default:\n  timeout: soon"))
	fmt.Println(err)
	// Output:
	// 500ms 2s <nil>
	// policy: default.timeout: time: invalid duration "soon"
}

// A policy in YAML may come from any source, here from a registry.
func ExampleSource() {
	list := registry.NewMemory()
	list.PutDocument("/policies/shop", []byte("version: '7' # so that it is a string"))
	ctx, cancel := context.WithCancel(context.Background())
	_ = yaml.Source(policy.FromRegistry(list, "/policies/shop")).Watch(ctx, func(text []byte, err error) {
		fmt.Println(string(text), err)
		cancel() // once is enough
	})
	// Output: {"version":"7"} <nil>
}
