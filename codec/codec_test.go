package codec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
)

func TestRaw(t *testing.T) {
	codectest.Run(t, codec.Raw(), &[]byte{1, 2, 3})
}

func TestPackedLayout(t *testing.T) {
	long := strings.Repeat("x", 200)
	got, err := codec.Append(codec.Raw(), []byte("head"), tandem.Args{[]byte("ab"), nil, []byte(long)})
	want := "head" + "\x03" + "\x02ab" + "\x00" + "\xc8\x01" + long
	if err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

func TestPackedNone(t *testing.T) {
	src, err := codec.Append(codec.JSON(), nil, tandem.Args{})
	if err != nil || string(src) != "\x00" {
		t.Fatalf("%q, %v", src, err)
	}
	for _, src := range [][]byte{src, nil} {
		if err := codec.Decode(codec.JSON(), src, tandem.Args{}); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
}

// TestPackedNil sends nil for the second value, and discards the first.
func TestPackedNil(t *testing.T) {
	c := codec.JSON()
	src, err := codec.Append(c, nil, tandem.Args{"a", nil, 3})
	if err != nil {
		t.Fatal(err)
	}
	s, n := "old", 0
	if err := codec.Decode(c, src, tandem.Results{nil, &s, &n}); err != nil {
		t.Fatal(err)
	}
	if s != "" || n != 3 {
		t.Fatalf("got %q and %d", s, n)
	}
}

// The error for several values, or none, where one is expected says so.
func TestPackedWhereOneIsExpected(t *testing.T) {
	for n, args := range []tandem.Args{{}, {7}, {7, 8}} {
		src, err := codec.Append(codec.JSON(), nil, args)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("has %d values, packed", n)
		if err := codec.Decode(codec.JSON(), src, new(int)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d values: %v", n, err)
		}
	}
	for _, src := range []string{"\x01", "\x02\x01a", "\x01\x01ab", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if err := codec.Decode(codec.JSON(), []byte(src), new(int)); err == nil || strings.Contains(err.Error(), "packed") {
			t.Errorf("%q: %v", src, err)
		}
	}
}

func TestPackedRefused(t *testing.T) {
	for src, part := range map[string]string{
		"":                 "number",
		"\x80":             "number",
		"\x01\x01a":        "has 1, want 2",
		"\x03\x00\x00\x00": "has 3, want 2",
		"\x02\x01a":        "value 2 of 2: its length",
		"\x02\x01a\x02b":   "value 2 of 2: it claims 2 bytes where 1 are left",
		"\x02\x01a\x01bc":  "1 bytes left over",
		"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": "value 1 of 2: it claims 18446744073709551615",
		"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f": "value 1 of 2: its length",
	} {
		var a, b []byte
		err := codec.Decode(codec.Raw(), []byte(src), tandem.Args{&a, &b})
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: error %v, want one with %q", src, err, part)
		}
	}
}

var errFailing = errors.New("out of ink")

// failing is a codec that appends something and then fails.
type failing struct{}

func (failing) Name() string { return "failing" }

func (failing) Append(dst []byte, v any) ([]byte, error) {
	return append(dst, "junk"...), errFailing
}
func (failing) Decode(src []byte, v any) error { return errFailing }

func TestErrors(t *testing.T) {
	for _, v := range []any{1, tandem.Args{1}} {
		out, err := codec.Append(failing{}, []byte("head"), v)
		if string(out) != "head" || !errors.Is(err, errFailing) {
			t.Errorf("Append = %q, %v", out, err)
		}
		if !strings.Contains(err.Error(), "codec failing: encoding int: ") {
			t.Errorf("error %q names no codec or no type", err)
		}
	}
	err := codec.Decode(failing{}, []byte("x"), new(int))
	if !errors.Is(err, errFailing) || err.Error() != "codec failing: decoding into *int: out of ink" {
		t.Errorf("Decode: %v", err)
	}
	if err := codec.Decode(failing{}, nil, 5); err == nil {
		t.Error("Decode of the empty message into an int that is no pointer succeeded")
	}
}

func TestRawTypes(t *testing.T) {
	c := codec.Raw()
	for _, v := range []any{"text", 5, (*[]byte)(nil)} {
		if _, err := c.Append(nil, v); err == nil {
			t.Errorf("%T was encoded", v)
		}
	}
	for _, v := range []any{[]byte("ab"), new(string), (*[]byte)(nil)} {
		if err := c.Decode([]byte("x"), v); err == nil {
			t.Errorf("%T was decoded into", v)
		}
	}
}

// TestRawOldBytes decodes twice into one variable: the first bytes do not change.
func TestRawOldBytes(t *testing.T) {
	var v []byte
	if err := codec.Decode(codec.Raw(), []byte("first"), &v); err != nil {
		t.Fatal(err)
	}
	kept := v
	if err := codec.Decode(codec.Raw(), []byte("other"), &v); err != nil {
		t.Fatal(err)
	}
	if string(kept) != "first" || string(v) != "other" {
		t.Fatalf("kept %q, now %q", kept, v)
	}
}

func FuzzPacked(f *testing.F) {
	src, err := codec.Append(codec.Raw(), nil, tandem.Args{[]byte("ab"), []byte(""), []byte("cde")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src)
	f.Fuzz(func(t *testing.T, src []byte) {
		var a, b, c []byte
		if codec.Decode(codec.Raw(), src, tandem.Args{&a, &b, &c}) != nil {
			return
		}
		again, err := codec.Append(codec.Raw(), nil, tandem.Args{a, b, c})
		if err != nil || len(again) > len(src) {
			t.Fatalf("%q became %q, %v", src, again, err)
		}
	})
}

func FuzzDecodeRaw(f *testing.F) { codectest.Fuzz(f, codec.Raw(), 16, &[]byte{1}) }

func BenchmarkRaw(b *testing.B) {
	v := make([]byte, 600)
	codectest.Benchmark(b, codec.Raw(), &v)
}
