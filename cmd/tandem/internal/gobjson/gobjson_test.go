package gobjson

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/codec"
)

// line is what a service of Go might take.
type line struct {
	Item  string
	Count uint
	Price float64
	Tags  []string
	Notes map[string]int
	Raw   []byte
	Paid  bool
	Inner *line
	Lines []line
	Skew  int
}

func TestValue(t *testing.T) {
	for _, c := range []struct {
		text string
		want any // of the type that the receiver has
	}{
		{`{"A":7,"B":-8}`, struct{ A, B int }{7, -8}},
		{`9007199254740993`, int64(9007199254740993)}, // no float64 has this value
		{`{"uint":18446744073709551615}`, uint64(math.MaxUint64)},
		{`7.0`, 7.0},
		{`{"float":7}`, 7.0},
		{`"text"`, "text"},
		{`true`, true},
		{`{}`, struct{}{}},
		{`[1,2,3]`, []int{1, 2, 3}},
		{`[1,2.5]`, []float64{1, 2.5}},
		{`{"bytes":"AQID"}`, []byte{1, 2, 3}},
		{`{"map":{"one":1,"two":2}}`, map[string]int{"one": 1, "two": 2}},
		{`{"map":{"uint":7}}`, map[string]int{"uint": 7}},
		{`{"Item":"tea","Count":{"uint":2},"Price":1.5,"Tags":["hot"],"Notes":{"map":{"x":1}},"Raw":{"bytes":"AQ=="},
			"Paid":true,"Inner":{"Skew":-1,"Tags":[]},"Lines":[{"Item":"a"},{"Count":{"uint":1},"Inner":null}]}`,
			line{Item: "tea", Count: 2, Price: 1.5, Tags: []string{"hot"}, Notes: map[string]int{"x": 1}, Raw: []byte{1},
				Paid: true, Inner: &line{Skew: -1}, Lines: []line{{Item: "a"}, {Count: 1}}}},
	} {
		v, err := Value([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var message bytes.Buffer
		if err := gob.NewEncoder(&message).Encode(v); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := reflect.New(reflect.TypeOf(c.want))
		if err := gob.NewDecoder(&message).DecodeValue(got); err != nil || !reflect.DeepEqual(got.Elem().Interface(), c.want) {
			t.Errorf("%s: got %+v, %v", c.text, got.Elem(), err)
		}
	}
}

func TestValueErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"A":7`, "is not JSON"},
		{`1 2`, "is not JSON"},
		{`null`, "has no type"},
		{`[]`, "has no type"},
		{`{"a":7}`, `"a" can't be a field`},
		{`{"A":{"b":7}}`, `A: "b" can't be a field`},
		{`[1,"x"]`, "an int and a string"},
		{`[{"A":1},{"A":"x"}]`, "A: an int and a string"},
		{`{"uint":-7}`, "-7 is no uint64"},
		{`{"A":{"uint":1.5}}`, "A: 1.5 is no uint64"},
		{`{"uint":"7"}`, `"7" is not a uint`},
		{`{"map":[1]}`, "[1] is not a map"},
		{`{"bytes":"?"}`, "base64"},
		{`92233720368547758070`, "is no int64"},
	} {
		if v, err := Value([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want an error with %q", c.text, v, err, c.want)
		}
	}
}

// node is a type that has itself inside.
type node struct {
	Value int
	Next  *node
}

func TestText(t *testing.T) {
	gob.Register(node{})
	at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	for _, c := range []struct {
		value any
		want  string
	}{
		{struct{ A, B int }{7, -8}, `{"A":7,"B":-8}`},
		{struct{ A, B int }{0, 1}, `{"A":0,"B":1}`},
		{struct{}{}, `{}`},
		{int64(math.MinInt64), `-9223372036854775808`},
		{uint64(math.MaxUint64), `18446744073709551615`},
		{[]float64{1.5, math.Inf(1), math.NaN()}, `[1.5,"+Inf","NaN"]`},
		{complex(1, -2), `[1,-2]`},
		{"a\"b", `"a\"b"`},
		{[]byte{1, 2}, `"AQI="`},
		{[2]bool{true, false}, `[true,false]`},
		{map[int]string{2: "b", 1: "a"}, `{"1":"a","2":"b"}`},
		{map[string][]int{"x": {1}}, `{"x":[1]}`},
		{node{1, &node{2, nil}}, `{"Value":1,"Next":{"Value":2,"Next":null}}`},
		{struct{ At, Never time.Time }{At: at}, `{"At":"2026-02-03T04:05:06.000000007Z","Never":null}`},
		{struct{ V []any }{[]any{1, "x", node{Value: 3}}}, `{"V":[1,"x",{"Value":3,"Next":null}]}`},
		{line{}, `{"Item":"","Count":0,"Price":0,"Tags":[],"Notes":{},"Raw":"","Paid":false,"Inner":null,"Lines":[],"Skew":0}`},
	} {
		message, err := codec.Append(codec.Gob(), nil, c.value)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Text(message); err != nil || string(got) != c.want {
			t.Errorf("%v: got %s, %v, want %s", c.value, got, err, c.want)
		}
		for n := range message {
			if got, err := Text(message[:n]); err == nil {
				t.Errorf("%v cut after %d of %d bytes: %s", c.value, n, len(message), got)
			}
		}
	}
}

// TestTextBounded decodes a message in which each byte stands for a struct with many fields of
// zeros.
func TestTextBounded(t *testing.T) {
	var fields []reflect.StructField
	for i := range 1000 {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%049d", i), Type: reflect.TypeFor[int]()})
	}
	message, err := codec.Append(codec.Gob(), nil, reflect.MakeSlice(reflect.SliceOf(reflect.StructOf(fields)), 2000, 2000).Interface())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := Text(message); err == nil || len(text) > 2*maxExtra {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestKeysInKeys decodes a map whose key is such a map, and so on: each level quotes the keys of
// those inside once more.
func TestKeysInKeys(t *testing.T) {
	const id, levels = 65, 40
	described := []byte{0xff, id<<1 - 1, // the type's id, negative
		4, 1, 1, 1, 'm', 0, // a map, by the name m
		1, 0xff, id << 1, 1, 2 << 1, 0, 0} // keys: the map itself; elements: int
	value := append([]byte{0xff, id << 1, 0}, bytes.Repeat([]byte{1}, levels)...) // one member each
	value = append(append(value, 0), bytes.Repeat([]byte{2}, levels)...)          // the innermost has none
	message := append([]byte{byte(len(described))}, described...)
	message = append(append(message, byte(len(value))), value...)
	if text, err := Text(message); err == nil || !strings.Contains(err.Error(), "names, zeros and keys") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func FuzzText(f *testing.F) {
	for _, v := range []any{line{Item: "a", Lines: []line{{Raw: []byte{1}}}}, map[string]float64{"x": 1.5}, time.Now(),
		node{1, &node{2, nil}}, struct{ V any }{7}, complex(1, 2), uint(7)} {
		message, err := codec.Append(codec.Gob(), nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		text, err := Text(message)
		if err == nil && !json.Valid(text) {
			t.Errorf("%s: %s is not JSON", base64.StdEncoding.EncodeToString(message), text)
		}
	})
}
