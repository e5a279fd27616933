package yaml_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tandem-rpc/tandem/policy"
)

// published returns the schema in docs, as read by another module's validator.
func published(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "policy.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate reports whether a text is JSON that the schema allows.
func validate(s *jsonschema.Schema, text []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// The schema allows what Parse accepts; of the rest it allows only errors that a schema can't
// express.
func TestSchema(t *testing.T) {
	s := published(t)
	for _, d := range documents(t) {
		err := validate(s, []byte(d.Text))
		if want := d.Error == "" || d.SchemaTakesIt; (err == nil) != want {
			t.Errorf("%.200s: the schema says %v, Parse %q", d.Text, err, d.Error)
		}
	}
}

// Values for fields of each kind, valid ones and invalid ones.
var values = map[reflect.Kind][]any{
	reflect.String:  {"1s", "0", "1.5h", ".5ms", "24h", "25h", "-1s", "+2m", "1.m", "3µs", "3μs", "x", "", "p2c", "failover", "ring-hash", 1, nil},
	reflect.Int:     {0, 1, 2, 10, 11, -1, 1_000_000, 1_000_001, 1e30, 0.5, "1", true, nil},
	reflect.Float64: {0, 0.1, 0.5, 1, 1.5, 2, 3, -0.1, 1e300, "1", nil},
	reflect.Bool:    {true, false, "true", 0, nil},
}

// some returns a random value for a type. One field in ten is invalid.
func some(r *rand.Rand, t reflect.Type) any {
	switch {
	case t.Kind() == reflect.Pointer:
		return some(r, t.Elem())
	case t == reflect.TypeFor[time.Time]():
		return []any{"2026-11-21T08:00:00Z", "2026-11-21T08:00:00.5+01:00", "2026-11-21", "", nil, 7}[r.IntN(6)]
	case t == reflect.TypeFor[policy.Duration]():
		t = reflect.TypeFor[string]()
	case t.Kind() == reflect.Slice:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, some(r, t.Elem()))
		}
		return list
	case t.Kind() == reflect.Map:
		m := map[string]any{}
		for range r.IntN(3) {
			m[[]string{"A.B", "A.*", "x.y.Z", "A", ".B", "A.", "*.*"}[r.IntN(7)]] = some(r, t.Elem())
		}
		return m
	case t.Kind() == reflect.Struct:
		m := map[string]any{}
		for f := range t.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if options == "" && r.IntN(10) > 0 || r.IntN(4) == 0 {
				m[name] = some(r, f.Type)
			}
		}
		if r.IntN(40) == 0 {
			m[[]string{"unheard", "Timeout", ""}[r.IntN(3)]] = "1s"
		}
		return m
	}
	list := values[t.Kind()]
	return list[r.IntN(len(list))]
}

// The schema also allows those random documents that Parse accepts.
func TestSchemaAllowsWhatParseTakes(t *testing.T) {
	s := published(t)
	r := rand.New(rand.NewPCG(7, 2026))
	taken, refused := 0, 0
	for range 50_000 {
		text, err := json.Marshal(some(r, reflect.TypeFor[policy.Policy]()))
		if err != nil {
			t.Fatal(err)
		}
		_, parsed := policy.Parse(text)
		allowed := validate(s, text)
		if parsed == nil {
			taken++
		}
		if allowed != nil {
			refused++
		}
		if parsed == nil && allowed != nil {
			t.Fatalf("Parse takes %s, the schema says %v", text, allowed)
		}
	}
	if taken < 1000 || refused < 1000 {
		t.Errorf("of 50000 documents Parse took %d, the schema refused %d", taken, refused)
	}
	t.Logf("of 50000 documents Parse took %d, the schema refused %d", taken, refused)
}
