package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
)

func TestJSON(t *testing.T) {
	raw := json.RawMessage(`{"a":[1,2]}`)
	codectest.Run(t, codec.JSON(), codectest.SampleOrder(), codectest.SampleNested(4),
		codectest.SampleNumbers(), &raw, new(string))
}

// TestRawMessage checks that spaces and escapes stay, which encoding/json removes.
func TestRawMessage(t *testing.T) {
	c := codec.JSON()
	raw := json.RawMessage("{ \"a\" : \"<b>\" }")
	for _, v := range []any{raw, &raw} {
		got, err := c.Append([]byte("head"), v)
		if err != nil || string(got) != "head"+string(raw) {
			t.Errorf("%T: %q, %v", v, got, err)
		}
	}
	var back json.RawMessage
	if err := c.Decode(raw, &back); err != nil || string(back) != string(raw) {
		t.Errorf("%q, %v", back, err)
	}
	if got, err := c.Append(nil, json.RawMessage(nil)); err != nil || string(got) != "null" {
		t.Errorf("nil: %q, %v", got, err)
	}
	if _, err := c.Append(nil, json.RawMessage("{")); err == nil {
		t.Error("an unfinished message was passed on")
	}
}

func TestJSONText(t *testing.T) {
	got, err := codec.JSON().Append([]byte("head"), map[string]string{"k": "<&>"})
	if want := `head{"k":"<&>"}`; err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
	if got, err := codec.JSON().Append([]byte("head"), make(chan int)); err == nil || string(got) != "head" {
		t.Fatalf("a channel became %q", got)
	}
}

// faultyJSON has methods that panic, as methods do that do not check their input.
type faultyJSON struct{}

func (*faultyJSON) MarshalJSON() ([]byte, error)   { panic("no ink") }
func (*faultyJSON) UnmarshalJSON(src []byte) error { _ = src[1000]; return nil }

func TestJSONFaults(t *testing.T) {
	c := codec.JSON()
	if b, err := c.Append([]byte("x"), new(faultyJSON)); err == nil || !strings.Contains(err.Error(), "faultyJSON panicked: no ink") || string(b) != "x" {
		t.Errorf("panic in MarshalJSON: %q, %v", b, err)
	}
	if err := c.Decode([]byte("1"), new(faultyJSON)); err == nil || !strings.Contains(err.Error(), "faultyJSON panicked") {
		t.Errorf("panic in UnmarshalJSON: %v", err)
	}
	if b, err := c.Append([]byte("x"), 1); err != nil || string(b) != "x1" {
		t.Errorf("after a panic: %q, %v", b, err)
	}
}

func TestJSONDepth(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	var v any
	if err := codec.JSON().Decode(nested(codec.MaxDepth), &v); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{codec.MaxDepth + 1, 9_000, 100_000} {
		err := codec.JSON().Decode(nested(n), &v)
		if err == nil || !strings.Contains(err.Error(), "deeper than 64") {
			t.Errorf("depth %d: error %v", n, err)
		}
	}
	text := []byte(`"` + strings.Repeat("[", 100) + `\"` + strings.Repeat("{", 100) + `"`)
	if err := codec.JSON().Decode(text, &v); err != nil {
		t.Errorf("brackets in a string: %v", err)
	}
}

func TestJSONTrailing(t *testing.T) {
	var v any
	if err := codec.JSON().Decode([]byte(`{} {}`), &v); err == nil {
		t.Fatal("a second value was accepted")
	}
}

func FuzzDecodeJSON(f *testing.F) {
	var v any = "x"
	codectest.Fuzz(f, codec.JSON(), 128, codectest.SampleOrder(), codectest.SampleNested(3), &v)
}

func BenchmarkJSON(b *testing.B) { codectest.Benchmark(b, codec.JSON(), codectest.SampleOrder()) }

func TestStrictJSON(t *testing.T) {
	c := codec.StrictJSON()
	type inner struct{ B int }
	type outer struct{ A []inner }
	for src, want := range map[string]string{
		`{"A":[{"B":1}]} `:          "",
		`{"A":[{"B":1,"c\n":2}]}`:   `unknown field "c\n"`,
		`{"A":[],"X":1} `:           `unknown field "X"`,
		`{"A":[]} {}`:               `invalid character '{' after top-level value`,
		`{"A":1}`:                   "json: cannot unmarshal number into Go struct field outer.A of type []codec_test.inner",
		strings.Repeat("[", 100000): fmt.Sprintf("nested deeper than %d", codec.MaxDepth),
	} {
		err := c.Decode([]byte(src), new(outer))
		_, unknown := errors.AsType[*codec.UnknownFieldError](err)
		if (err == nil) != (want == "") || err != nil && err.Error() != want || unknown != strings.HasPrefix(want, "unknown") {
			t.Errorf("%.40s: %v, want %s", src, err, want)
		}
	}
	codectest.Run(t, c, codectest.SampleOrder(), codectest.SampleNested(4))
}
