package msgpack_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	other "github.com/vmihailenco/msgpack/v5"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
	"github.com/tandem-rpc/tandem/codec/msgpack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// point has the methods that msgp generates.
type point struct{ X, Y byte }

func (p *point) MarshalMsg(b []byte) ([]byte, error) {
	return append(b, 0x92, p.X, p.Y), nil
}

func (p *point) UnmarshalMsg(b []byte) ([]byte, error) {
	if len(b) < 3 || b[0] != 0x92 {
		return b, errors.New("not a point")
	}
	p.X, p.Y = b[1], b[2]
	return b[3:], nil
}

// dynamic has all that msgpack/v5 is known to panic on.
type dynamic struct {
	Any    any
	ByAny  map[any]any
	ByName map[string]any
	List   []any
	Err    error
	Str    fmt.Stringer
	When   time.Time
	Later  *time.Time
}

func samples() []any {
	now := time.Unix(1e9, 5).UTC()
	n := -5
	return []any{
		codectest.SampleOrder(), codectest.SampleNested(4), codectest.SampleNumbers(), &point{1, 2},
		&dynamic{
			Any: "x", ByAny: map[any]any{"a": "b", int8(1): true}, ByName: map[string]any{"k": []any{"v"}},
			List: []any{nil, "s", 2.5, []byte("b")}, When: now, Later: &now,
		},
		&n, new(string), &[]byte{1, 2}, &map[string]string{"a": "b"}, &now,
	}
}

func TestCodec(t *testing.T) { codectest.Run(t, msgpack.Codec(), samples()...) }

func TestTags(t *testing.T) {
	type names struct {
		A int `msgpack:"a1" msg:"a2"`
		B int `msg:"b1"`
		C int
		D int `msg:"-"`
	}
	c := msgpack.Codec()
	src, err := c.Append(nil, &names{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	if err := c.Decode(src, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got["a1"] != 1 || got["b1"] != 2 || got["C"] != 3 {
		t.Fatalf("fields %v", got)
	}
	var back names
	if err := c.Decode(src, &back); err != nil || back != (names{1, 2, 3, 0}) {
		t.Fatalf("%+v, %v", back, err)
	}
}

func TestGeneratedMethods(t *testing.T) {
	c := msgpack.Codec()
	src, err := c.Append([]byte("head"), &point{7, 8})
	if err != nil || string(src) != "head\x92\x07\x08" {
		t.Fatalf("%q, %v", src, err)
	}
	if err := c.Decode([]byte("\x92\x01\x02\x03"), new(point)); err == nil {
		t.Fatal("bytes after the value were accepted")
	}
	if err := c.Decode([]byte("\xdd\xff\xff\xff\xff"), new(point)); err == nil {
		t.Fatal("a length without elements reached UnmarshalMsg")
	}
}

// TestInteropWithMsgpackV5 checks that msgpack/v5 reads what the codec writes, and the reverse.
func TestInteropWithMsgpackV5(t *testing.T) {
	want := codectest.SampleOrder()
	src, err := msgpack.Codec().Append(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	var got codectest.Order
	dec := other.NewDecoder(bytes.NewReader(src))
	if err := dec.Decode(&got); err != nil || got.Customer != want.Customer {
		t.Fatalf("%+v, %v", got, err)
	}
	if src, err = other.Marshal(want); err != nil {
		t.Fatal(err)
	}
	got = codectest.Order{}
	if err := msgpack.Codec().Decode(src, &got); err != nil || !got.Placed.Equal(want.Placed) {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestDeclaredLengthsAreChecked decodes short messages that declare millions of elements.
func TestDeclaredLengthsAreChecked(t *testing.T) {
	claim := binary.BigEndian.AppendUint32(nil, 4_000_000)
	most := "\xff\xff\xff\xff"
	bombs := map[string]string{
		"array32":          "\xdd" + string(claim),
		"array32, most":    "\xdd" + most,
		"array16":          "\xdc\xff\xff",
		"map32":            "\xdf" + string(claim),
		"map32, most":      "\xdf" + most,
		"map of half":      "\xdf\x80\x00\x00\x00",
		"map16":            "\xde\xff\xff",
		"str32":            "\xdb" + most,
		"bin32":            "\xc6" + most,
		"ext32":            "\xc9" + most + "\xff",
		"array in array":   "\x91\xdd" + string(claim),
		"array in a map":   "\x81\xa1k\xdd" + string(claim),
		"map in ext":       "\xc7\x05\x05\xdf" + most,
		"map in timestamp": "\xc7\x05\xff\xdf" + most,
		"nil in ext":       "\xc7\x06\x05\xc0\xdd" + most,
		"cut short":        "\xdd\xff",
	}
	for name, src := range bombs {
		for _, v := range []any{new(any), new([]any), new([]struct{ A, B int64 }), new([]string), new(map[string]any),
			new(map[string]string), new(map[int]int), new(map[any]any), new([]byte), new(string), new(dynamic), new(point)} {
			var err error
			got := codectest.Allocated(func() { err = msgpack.Codec().Decode([]byte(src), v) })
			if err == nil || got > codectest.Bound(len(src)) {
				t.Errorf("%s into %T: %d bytes allocated, error %v", name, v, got, err)
			}
		}
	}
}

// TestTimestampThatLooksLikeAMap decodes a timestamp whose payload is a map header of 2^32-1 pairs
// where the decoder expects a map. It must fail, and a time must still decode.
func TestTimestampThatLooksLikeAMap(t *testing.T) {
	nsec, sec := uint32(0xdf<<22|0x3fffff), uint64(3<<32|0xffffffff)
	payload := binary.BigEndian.AppendUint64(nil, uint64(nsec)<<34|sec)
	if payload[0] != 0xdf {
		t.Fatalf("payload % x does not begin like a map", payload)
	}
	src := append([]byte{0xd7, 0xff}, payload...)
	want := time.Unix(int64(sec), int64(nsec))
	c := msgpack.Codec()
	var when time.Time
	if err := c.Decode(src, &when); err != nil || !when.Equal(want) {
		t.Errorf("%v, %v, want %v", when, err, want)
	}
	for _, v := range []any{new(map[string]any), new(map[string]string), new(map[int]int)} {
		got := codectest.Allocated(func() {
			if err := c.Decode(src, v); err == nil {
				t.Errorf("a time became a %T", v)
			}
		})
		if got > codectest.Bound(len(src)) {
			t.Errorf("%T: %d bytes allocated", v, got)
		}
	}
}

// TestTimes encodes and decodes times with every first byte that a timestamp can have,
// inside other values.
func TestTimes(t *testing.T) {
	type event struct {
		Name string
		From time.Time
		To   *time.Time
		Tags map[string]any
	}
	c := msgpack.Codec()
	for nsec := int64(0); nsec < 1e9; nsec += 1 << 21 {
		for _, sec := range []int64{-5, 1e9, 0x80 << 24, 0xde << 24, 1 << 33, 1 << 35} {
			to := time.Unix(sec, 0)
			in := event{"start", time.Unix(sec, nsec), &to, map[string]any{"at": time.Unix(sec, nsec), "z": "end"}}
			src, err := c.Append(nil, &in)
			if err != nil {
				t.Fatal(err)
			}
			var out event
			if err := c.Decode(src, &out); err != nil {
				t.Fatalf("%v: %v", in.From, err)
			}
			at, _ := out.Tags["at"].(time.Time)
			if !out.From.Equal(in.From) || !out.To.Equal(to) || !at.Equal(in.From) || out.Tags["z"] != "end" {
				t.Fatalf("%+v became %+v", in, out)
			}
		}
	}
}

func TestTimestampForms(t *testing.T) {
	for src, ok := range map[string]bool{
		"\xd6\xff\x00\x00\x00\x01":                                     true,
		"\xd7\xff\x00\x00\x00\x00\x00\x00\x00\x01":                     true,
		"\xc7\x0c\xff\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff": true,
		"\xd7\xff\xff\xff\xff\xff\x00\x00\x00\x01":                     false, // 2^30-1 nanoseconds
		"\xd5\xff\x00\x00":                                             false, // two bytes
		"\xd6\x05\x00\x00\x00\x01":                                     false, // another type
		"\xd6\xff\x00\x00":                                             false, // cut short
		"\xd6":                                                         false,
	} {
		var v time.Time
		if err := msgpack.Codec().Decode([]byte(src), &v); (err == nil) != ok {
			t.Errorf("% x: %v, %v", src, v, err)
		}
	}
}

func TestDepth(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("\x91", n) + "\x01") }
	var v any
	if err := msgpack.Codec().Decode(nested(codec.MaxDepth), &v); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{codec.MaxDepth + 1, 100_000} {
		err := msgpack.Codec().Decode(nested(n), &v)
		if err == nil || !strings.Contains(err.Error(), "deeper than 64") {
			t.Errorf("depth %d: error %v", n, err)
		}
	}
}

// TestMessagesOnWhichTheDecoderPanics decodes well-formed messages on which msgpack/v5 panics.
func TestMessagesOnWhichTheDecoderPanics(t *testing.T) {
	c := msgpack.Codec()
	for name, src := range map[string]string{
		"unhashable key":     "\x81\xa5ByAny\x81\x91\x01\x02",
		"field twice":        "\x82\xa3Any\x01\xa3Any\x02",
		"no error":           "\x81\xa3Err\x05",
		"no stringer":        "\x81\xa3Str\xa1x",
		"nil for a time":     "\x81\xa4When\xc0",
		"array for a string": "\x81\xa6ByName\x91\x01",
	} {
		err := c.Decode([]byte(src), new(dynamic))
		if err == nil {
			t.Errorf("%s: decoded", name)
		}
		want := codectest.SampleOrder()
		b, err := c.Append(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Decode(b, new(codectest.Order)); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, src := range map[string]string{
		"nothing":                 "",
		"reserved code":           "\xc1",
		"bytes after the value":   "\x01\x02",
		"an element missing":      "\x92\x01",
		"a number cut short":      "\xcf\x01",
		"a string cut short":      "\xa5abc",
		"a length cut short":      "\xda\x01",
		"a map without its value": "\x81\x01",
	} {
		var v any
		if err := msgpack.Codec().Decode([]byte(src), &v); err == nil {
			t.Errorf("%s became %v", name, v)
		}
	}
	var a struct{ A int } // has no field for the extension
	err := msgpack.Codec().Decode([]byte("\x81\xa1z\xd6\x05\x00\x00\x00\x01"), &a)
	if err == nil || !strings.Contains(err.Error(), "extension type 5") {
		t.Errorf("an extension of another type: error %v", err)
	}
	if _, err := msgpack.Codec().Append(nil, make(chan int)); err == nil {
		t.Error("a channel was encoded")
	}
	for _, v := range []any{nil, 5, (*int)(nil)} {
		if err := msgpack.Codec().Decode([]byte{1}, v); err == nil {
			t.Errorf("%T was decoded into", v)
		}
	}
}

// TestScanAllocatesNothing measures the walk with a value that needs no memory when it
// is decoded.
func TestScanAllocatesNothing(t *testing.T) {
	c, src, v := msgpack.Codec(), []byte("\x92\x01\x02"), new(point)
	n := testing.AllocsPerRun(100, func() {
		if err := c.Decode(src, v); err != nil {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// greedy reads more than its value.
type greedy struct{}

func (*greedy) DecodeMsgpack(d *other.Decoder) error { return nil }

func TestMethodReadsTooLittle(t *testing.T) {
	if err := msgpack.Codec().Decode([]byte{1}, new(greedy)); err == nil {
		t.Fatal("an unread value was accepted")
	}
}

func FuzzDecodeMsgpack(f *testing.F) {
	var v any = []any{"a", map[string]any{"b": 1}}
	codectest.Fuzz(f, msgpack.Codec(), 128, codectest.SampleOrder(), codectest.SampleNested(3), &v,
		&dynamic{Any: "x", ByName: map[string]any{"k": 1}}, &point{})
}

func BenchmarkMsgpack(b *testing.B) {
	codectest.Benchmark(b, msgpack.Codec(), codectest.SampleOrder())
}

func Example() {
	type Point struct {
		X, Y  int
		Label string `msgpack:"label"`
	}
	c := msgpack.Codec()
	src, err := codec.Append(c, nil, tandem.Args{&Point{1, 2, "home"}, 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	var p Point
	var n int
	err = codec.Decode(c, src, tandem.Args{&p, &n})
	fmt.Println(p, n, err)
	// Output: {1 2 home} 5 <nil>
}
