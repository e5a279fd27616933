package codec_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
)

// open has interfaces inside, so gob puts type descriptions between its values.
type open struct {
	A    int
	X, Y any
	List []any
	Z    string
}

type inner struct {
	B    []string
	M    map[string]int
	Deep any
}

// register registers the types in interfaces with gob, whose table belongs to the
// process.
func register() {
	gob.Register(inner{})
	gob.Register(codectest.Line{})
	gob.Register(map[string]any{})
	gob.Register([]any{})
	gob.Register(withNils{})
	gob.Register([2]withNils{})
	gob.RegisterName("lacking", &lacking{})
}

func sampleOpen() *open {
	in := inner{B: []string{"b"}, M: map[string]int{"k": 1}}
	return &open{
		A: 1, X: in, Y: codectest.Line{Article: "y", Count: 2},
		List: []any{1, "two", inner{Deep: inner{Deep: codectest.Line{}}}, []any{map[string]any{"x": 2.5}}},
		Z:    "end",
	}
}

// Gobber encodes itself.
type Gobber struct{ s string }

func (g Gobber) GobEncode() ([]byte, error) { return []byte(g.s), nil }
func (g *Gobber) GobDecode(b []byte) error  { g.s = string(b); return nil }
func (g Gobber) Equal(other Gobber) bool    { return g.s == other.s }

// Tree is a slice of Trees.
type Tree []Tree

func gobSamples() []any {
	register()
	n, s, any5 := 5, "text", any(5)
	type opaque struct {
		G Gobber
		C complex128
		P **int
	}
	p := &n
	return []any{
		codectest.SampleOrder(), codectest.SampleNested(4), codectest.SampleNumbers(), sampleOpen(),
		&n, &s, &any5, &[]byte{1, 2}, &map[string][]int{"a": {1, 2}}, &[3]string{"a", "b", "c"},
		&opaque{G: Gobber{"g"}, C: 1 + 2i, P: &p}, &Tree{nil, {nil, nil}},
	}
}

func TestGob(t *testing.T) { codectest.Run(t, codec.Gob(), gobSamples()...) }

// TestGobIsGob checks that the standard library reads what the codec writes, also the
// second time, and the codec reads what the library writes.
func TestGobIsGob(t *testing.T) {
	c := codec.Gob()
	for _, v := range gobSamples() {
		for range 2 {
			src, err := c.Append(nil, v)
			if err != nil {
				t.Fatalf("%T: %v", v, err)
			}
			got := reflect.New(reflect.TypeOf(v).Elem())
			if err := gob.NewDecoder(bytes.NewReader(src)).DecodeValue(got); err != nil {
				t.Fatalf("%T: standard decoder: %v", v, err)
			}
			if _, ok := v.(*open); ok {
				continue // see TestGobInline
			}
			var b bytes.Buffer
			if err := gob.NewEncoder(&b).Encode(v); err != nil {
				t.Fatalf("%T: standard encoder: %v", v, err)
			}
			if err := c.Decode(b.Bytes(), got.Interface()); err != nil {
				t.Fatalf("%T: %v", v, err)
			}
			if !reflect.DeepEqual(got.Interface(), v) {
				t.Fatalf("got %+v, want %+v", got.Interface(), v)
			}
		}
	}
}

// TestGobInline checks that messages with type descriptions inside a value, as the
// standard library writes them, are refused.
func TestGobInline(t *testing.T) {
	register()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(sampleOpen()); err != nil {
		t.Fatal(err)
	}
	err := codec.Gob().Decode(b.Bytes(), new(open))
	if err == nil || !strings.Contains(err.Error(), "described inside a value") {
		t.Fatalf("error %v", err)
	}
}

// TestGobText encodes a type with MarshalText, which gob does not use: gob encodes the
// interface inside, whose value may have another type each time.
func TestGobText(t *testing.T) {
	register()
	c := codec.Gob()
	send := []any{inner{B: []string{"b"}}}
	for range 50 {
		send = append(send, codectest.Line{Article: "a"})
	}
	for i, v := range send {
		src, err := c.Append(nil, &rule{Name: "r", Value: v})
		if err != nil {
			t.Fatal(err)
		}
		var got rule
		if err := codec.Gob().Decode(src, &got); err != nil || !reflect.DeepEqual(got.Value, v) {
			t.Fatalf("message %d: %+v, %v", i, got, err)
		}
	}
}

type rule struct {
	Name  string
	Value any
}

func (r rule) MarshalText() ([]byte, error)     { return []byte(r.Name), nil }
func (r *rule) UnmarshalText(text []byte) error { r.Name = string(text); return nil }

// TestGobCycle encodes a value that contains itself.
func TestGobCycle(t *testing.T) {
	register()
	list := []any{nil}
	list[0] = list
	if _, err := codec.Gob().Append(nil, &list); err == nil || !strings.Contains(err.Error(), "without end") {
		t.Fatalf("error %v", err)
	}
}

// TestGobOtherVersion decodes into a type that has fewer fields, and more, while
// decoders for the first are kept.
func TestGobOtherVersion(t *testing.T) {
	type newer struct {
		ID    uint64
		Added []string
	}
	c := codec.Gob()
	src, err := c.Append(nil, codectest.SampleOrder())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var old codectest.Order
		if err := c.Decode(src, &old); err != nil {
			t.Fatal(err)
		}
		var v newer
		if err := c.Decode(src, &v); err != nil || v.ID != old.ID {
			t.Fatalf("%+v, %v", v, err)
		}
	}
}

// bytesOf joins numbers and strings to a message.
func bytesOf(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// message returns the joined bytes with their length in front.
func message(parts ...any) []byte {
	b := bytesOf(parts...)
	if len(b) < 128 {
		return bytesOf(len(b), b)
	}
	return bytesOf(0xfe, len(b)>>8, len(b), b)
}

// id65 and id66 are type ids as gob writes them, neg65 is 65 as in its description.
const id65, neg65, id66 = "\xff\x82", "\xff\x81", "\xff\x84"

// TestGobBombs decodes short messages that make the standard decoder allocate
// without bound.
func TestGobBombs(t *testing.T) {
	huge := "\xf8\x00\x00\x00\x00\x7f\xff\xff\xff"
	for name, src := range map[string][]byte{
		"message of 8 MiB":       bytesOf("\xfd\x80\x00\x00", 1),
		"message of 2^56":        bytesOf("\xf9\x01\x00\x00\x00\x00\x00\x00"),
		"map of 2^31":            bytesOf(describeMap(), message(id65, 0, huge)),
		"slice of 2^31":          bytesOf(describeSlice(2*2), message(id65, 0, huge)),
		"string of 2^31":         message(6*2, 0, huge),
		"bytes of 2^31":          message(5*2, 0, huge),
		"array of other length":  bytesOf(describeArray(3), message(id65, 0, 2, 2, 2)),
		"field out of range":     bytesOf(describeStruct(2*2), message(id65, 2, 2, 0)),
		"type without kind":      bytesOf(message(neg65, 0), message(id65, 0, 0)),
		"type of two kinds":      bytesOf(message(neg65, 1, 1, 0, 0, 1, 1, 0, 0, 0), message(id65, 0, 0)),
		"type described twice":   bytesOf(describeMap(), describeMap(), message(id65, 0, 0)),
		"type never described":   message(id66, 0, 0),
		"a basic type described": bytesOf(message("\x03", 2, 1, 2, 1<<1, 0, 0, 0), message(2, 0, 0)),
		"id of 33 bits":          bytesOf(describeMap(), message("\xfb\x02\x00\x00\x00\x82", 0, 0)),
		"bytes after the value":  message(2*2, 0, 5*2, 99),
		"a second message":       bytesOf(message(2*2, 0, 10), message(2*2, 0, 10)),
		"bytes after a type":     bytesOf(message(neg65, 4, 1, 0, 1, 12, 1, 4, 0, 0, 7), message(id65, 0, 0)),
		"types alone":            describeMap(),
		"number of 9 bytes":      message("\xf7", "123456789"),
		"number cut short":       message("\xf8", "123"),
		"nothing":                {},
		"no zero before value":   message(2*2, 1, 10),
	} {
		for _, v := range []any{new(map[string]int), new([]int), new([3]int), new(int), new(string), new([]byte), new(struct{ F int }), new(any)} {
			var err error
			got := codectest.Allocated(func() { err = codec.Gob().Decode(src, v) })
			if err == nil || got > codectest.Bound(len(src)) {
				t.Errorf("%s into %T: %d bytes allocated, error %v", name, v, got, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "gob: ") {
				t.Errorf("%s into %T: error %q is not the scan's", name, v, err)
			}
		}
	}
}

// Where the receiver has no field for an interface, the decoder does not stop at a
// nil: it misreads what follows as a value, and goes on in the middle of another.
func TestGobIgnoredNil(t *testing.T) {
	describe := func(elem int) []byte {
		return bytesOf(describeSlice(elem), message("\xff\x83", 4, 1, 0, 1, 6*2, 1, 2*2, 0, 0),
			message("\xff\x85", 3, 1, 0, 1, 3, 1, 1, "A", 1, id65, 0, 1, 1, "D", 1, 2*2, 0, 1, 1, "M", 1, id66, 0, 0, 0))
	}
	// To the decoder, A holds a nil of type 1 in one byte, and M 65,535 entries.
	value := message("\xff\x86", 1, 1, 0, 2, 1, 4, 2, "\xfe\xff\xff", 10, 0)
	src := bytesOf(describe(8*2), value)
	// The same in a struct that an interface holds.
	register()
	held := bytesOf(describe(8*2), message(8*2, 0, len("lacking"), "lacking", "\xff\x86", len(value)-3, value[3:]))
	for name, x := range map[string]struct {
		src []byte
		v   any
	}{
		"in a struct":                    {src, new(lacking)},
		"in one that an interface holds": {held, new(any)},
	} {
		var err error
		got := codectest.Allocated(func() { err = codec.Gob().Decode(x.src, x.v) })
		if err == nil || !strings.Contains(err.Error(), "a nil in an interface that the receiver has no field for") || got > codectest.Bound(len(x.src)) {
			t.Errorf("%s: %d bytes allocated, error %v", name, got, err)
		}
	}
}

// The decoder decodes all fields of a struct that have the same Go type as it decodes
// the first, whatever types the message has for them.
func TestGobFieldsOfOneType(t *testing.T) {
	describe := func(second int) []byte {
		return bytesOf(
			message("\xff\x85", 3, 1, 0, 1, 3, 1, 1, "X", 1, id65, 0, 1, 1, "Y", 1, id66, 0, 1, 1, "M", 1, "\xff\x88", 0, 0, 0),
			describeStruct(2*2), message("\xff\x83", 3, 1, 0, 1, 1, 1, 1, "F", 1, second, 0, 0, 0),
			message("\xff\x87", 4, 1, 0, 1, 6*2, 1, 2*2, 0, 0))
	}
	var v lacking
	if err := codec.Gob().Decode(bytesOf(describe(2*2), message("\xff\x86", 1, 1, 2, 0, 1, 1, 4, 0, 1, 1, 1, "k", 6, 0)), &v); err != nil || v.X.F != 1 || v.Y.F != 2 || v.M["k"] != 3 {
		t.Errorf("%v, %v", v, err)
	}
	// Y's F is a string, to the decoder the number 5 and what is behind it.
	src := bytesOf(describe(6*2), message("\xff\x86", 1, 1, 2, 0, 1, 1, 5, 0, 1, "\xfe\xff\xff", 0, 0))
	var err error
	got := codectest.Allocated(func() { err = codec.Gob().Decode(src, new(lacking)) })
	if err == nil || !strings.Contains(err.Error(), "a length of 65535") || got > codectest.Bound(len(src)) {
		t.Errorf("%d bytes allocated, error %v", got, err)
	}
}

// Nils in interfaces are allowed where the receiver has the field, and in values that
// are dropped as a whole.
func TestGobNils(t *testing.T) {
	register()
	list := []any{nil, 1, map[string]any{"k": nil}, nil}
	sent := &withNils{
		List: list, Map: map[string]any{"k": nil, "l": list},
		Held: withNils{List: list, Held: withNils{List: list}}, Array: [2]any{nil, 2},
		Held2: [2]withNils{{List: list}, {List: list}}, More: []any{list, withNils{List: list}, &lacking{Z: "z"}},
	}
	c := codec.Gob()
	src, err := c.Append(nil, sent)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got := new(withNils)
		if err := c.Decode(src, got); err != nil || !reflect.DeepEqual(got, sent) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	var part struct{ List []any }
	src, err = c.Append(nil, &struct{ List, More []any }{list, []any{list, withNils{List: list}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Decode(src, &part); err != nil || !reflect.DeepEqual(part.List, list) {
		t.Errorf("%v, %v", part, err)
	}
}

// The value in an interface may be as short as gob can make it.
func TestGobEmptyArrays(t *testing.T) {
	type empty struct{ X int }
	gob.Register([2][128]empty{})
	gob.Register([300]empty{})
	for _, held := range []any{[2][128]empty{}, [300]empty{}} {
		src, err := codec.Gob().Append(nil, &struct{ V any }{held})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ V any }
		if err := codec.Gob().Decode(src, &got); err != nil || got.V != held {
			t.Errorf("%T: %v", held, err)
		}
	}
}

// withNils has elements that may be nil. Gob sends nil elements, but not nil fields.
type withNils struct {
	List        []any
	Map         map[string]any
	Array       [2]any
	Held, Held2 any
	More        []any
}

// lacking has few of the fields that messages in tests have, and two of one type.
type lacking struct {
	Z    string
	X, Y struct{ F int }
	M    map[string]int
}

// describeMap and the next functions return descriptions of type 65, with empty names.
func describeMap() []byte { return message(neg65, 4, 1, 0, 1, 6*2, 1, 2*2, 0, 0) }

func describeSlice(elem int) []byte { return message(neg65, 2, 1, 0, 1, elem, 0, 0) }

func describeArray(n int) []byte { return message(neg65, 1, 1, 0, 1, 2*2, 1, 2*n, 0, 0) }

func describeStruct(field int) []byte {
	return message(neg65, 3, 1, 0, 1, 1, 1, 1, "F", 1, field, 0, 0, 0)
}

// TestGobDescriptions checks the helpers above: what they describe is decoded.
func TestGobDescriptions(t *testing.T) {
	c := codec.Gob()
	m, s, a, f := map[string]int{}, []int{}, [3]int{}, struct{ F int }{}
	for _, x := range []struct {
		src []byte
		v   any
	}{
		{bytesOf(describeMap(), message(id65, 0, 1, 1, "k", 10)), &m},
		{bytesOf(describeSlice(2*2), message(id65, 0, 2, 2, 4)), &s},
		{bytesOf(describeArray(3), message(id65, 0, 3, 2, 4, 6)), &a},
		{bytesOf(describeStruct(2*2), message(id65, 1, 10, 0)), &f},
	} {
		if err := c.Decode(x.src, x.v); err != nil {
			t.Errorf("%T: %v", x.v, err)
		}
	}
	if m["k"] != 5 || len(s) != 2 || a[2] != 3 || f.F != 5 {
		t.Errorf("%v %v %v %v", m, s, a, f)
	}
}

func TestGobDepth(t *testing.T) {
	c := codec.Gob()
	ok, err := c.Append(nil, codectest.SampleNested(20))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Decode(ok, new(codectest.Nested)); err != nil {
		t.Fatal(err)
	}
	register()
	var chain any = 1
	for range 40 {
		chain = []any{chain}
	}
	for _, v := range []any{codectest.SampleNested(40), &chain} {
		src, err := c.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Decode(src, reflect.New(reflect.TypeOf(v).Elem()).Interface())
		if err == nil || !strings.Contains(err.Error(), "deeper than 64") {
			t.Errorf("%T: error %v", v, err)
		}
	}
}

// TestGobTypeWork sends many fields of a type that is a long chain of maps, none
// of which the receiver has.
func TestGobTypeWork(t *testing.T) {
	id := func(n int) []byte { return []byte{0xfe, byte(n >> 7), byte(n << 1)} }
	neg := func(n int) []byte { n = ^-n; return []byte{0xfe, byte(n >> 7), byte(n<<1) | 1} }
	var src []byte
	for n := range 500 {
		src = append(src, message(neg(1000+n), 4, 1, 0, 1, id(1001+n), 1, id(1001+n), 0, 0)...)
	}
	fields := bytes.Repeat(bytesOf(1, 1, "F", 1, id(1000), 0), 300)
	src = append(src, message(neg(999), 3, 1, 0, 1, 0xfe, 300>>8, 300&0xff, fields, 0, 0)...)
	src = append(src, message(id(999), 0)...)
	var v struct{ G int }
	got := codectest.Allocated(func() {
		err := codec.Gob().Decode(src, &v)
		if err == nil || !strings.Contains(err.Error(), "4096 fields") {
			t.Errorf("error %v", err)
		}
	})
	if got > 2<<20 {
		t.Errorf("%d bytes allocated for %d", got, len(src))
	}
}

// TestGobManyTypes uses more types than a codec keeps.
func TestGobManyTypes(t *testing.T) {
	c := codec.Gob()
	for i := range 600 {
		name := fmt.Sprint("T", i)
		src := bytesOf(message(neg65, 2, 1, 1, len(name), name, 0, 1, 2*2, 0, 0), message(id65, 0, 1, 10))
		var v []int
		if err := c.Decode(src, &v); err != nil || len(v) != 1 || v[0] != 5 {
			t.Fatalf("%d: %v, %v", i, v, err)
		}
	}
}

// TestGobDecodesAfterAnError checks that the codec decodes correctly after an error, with kept decoders.
func TestGobDecodesAfterAnError(t *testing.T) {
	c := codec.Gob()
	src, err := c.Append(nil, codectest.SampleOrder())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		var v codectest.Order
		if err := c.Decode(src, &v); err != nil {
			t.Fatal(err)
		}
		if err := c.Decode(src, new(codectest.Nested)); err == nil {
			t.Fatal("an order was decoded as something else")
		}
		if _, err := c.Append(nil, &struct{ F func() }{}); err == nil {
			t.Fatal("a type without fields was encoded")
		}
	}
}

type failingGob struct{ Panic bool }

var errGob = errors.New("no ink")

func (g failingGob) GobEncode() ([]byte, error) {
	if g.Panic {
		panic(errGob)
	}
	return nil, errGob
}
func (g *failingGob) GobDecode(b []byte) error { return nil }

func TestGobMethodsFail(t *testing.T) {
	for _, v := range []any{failingGob{}, failingGob{Panic: true}, nil, (*int)(nil)} {
		if _, err := codec.Gob().Append(nil, v); err == nil {
			t.Errorf("%#v was encoded", v)
		}
	}
}

func FuzzDecodeGob(f *testing.F) {
	register()
	any5 := any(5)
	nils := &withNils{List: []any{nil, 1}, More: []any{&lacking{Z: "z"}, withNils{List: []any{nil}}}}
	codectest.Fuzz(f, codec.Gob(), 128, codectest.SampleOrder(), codectest.SampleNested(3), sampleOpen(), &any5,
		nils, &lacking{Z: "z", M: map[string]int{"k": 1}})
}

// FuzzGobScan compares with the standard decoder: it must decode what the codec
// decodes. The codec may refuse more.
func FuzzGobScan(f *testing.F) {
	register()
	for _, v := range []any{codectest.SampleNested(2), sampleOpen()} {
		src, err := codec.Gob().Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		v := new(open)
		if codec.Gob().Decode(src, v) != nil {
			return
		}
		again := new(open)
		if err := gob.NewDecoder(bytes.NewReader(src)).Decode(again); err != nil {
			t.Fatalf("the standard decoder disagrees: %v", err)
		}
	})
}

func BenchmarkGob(b *testing.B) { codectest.Benchmark(b, codec.Gob(), codectest.SampleOrder()) }

// BenchmarkGobOpen measures a type with an interface inside.
func BenchmarkGobOpen(b *testing.B) {
	register()
	codectest.Benchmark(b, codec.Gob(), sampleOpen())
}
