package triple

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

type part struct {
	Name string
	Next *part
	Odd  int64  `hessian:"strange_name"`
	Out  string `hessian:"-"`
}

func (*part) JavaClassName() string { return "com.shop.Part" }

type colour string

func (colour) JavaClassName() string { return "com.shop.Colour" }

type embedded struct{ Inner int }

type whole struct {
	embedded // a struct whose fields belong to the outer struct, like those of a superclass

	Embedded struct{ X int }
	Part     part
	Parts    []part
	Colour   colour
	Any      any
	Floats   []float32
	Small    int8
	Unsigned uint32
	Times    []time.Time
	Map      map[int]*part
}

// mostInTests is the limit of an encoded value, in bytes.
const mostInTests = 1 << 20

// TestRoundTrip decodes what was encoded.
func TestRoundTrip(t *testing.T) {
	at := time.UnixMilli(1_234_567_890_123).UTC()
	long := strings.Repeat("aä€😀", 20_000)
	for _, v := range []any{
		true, false, 0, -17, 47, 48, math.MinInt32, math.MaxInt32, int64(-9), int64(15), int64(16), int64(math.MinInt64),
		1 << 40, uint16(7), uint(9), uint64(math.MaxInt64), 0.0, -1.5, math.Inf(1), float32(0.1),
		"", "x", long, strings.Repeat("😀", 40_000), []byte{}, bytes.Repeat([]byte{1, 2, 3}, 50_000), at,
		[]string{"a", ""}, []int{}, [][]int{{1}, nil, {2, 3}}, map[string]int{"a": 1}, map[int][]string{3: {"x"}},
		&part{Name: "a", Next: &part{Name: "b", Odd: -1}}, colour("RED"),
		whole{
			embedded: embedded{5}, Part: part{Name: "p"}, Parts: []part{{Odd: 1}, {Odd: 2}}, Colour: "BLUE", Any: []any{int32(1), "x", nil},
			Floats: []float32{1, -2}, Small: -128, Unsigned: math.MaxUint32, Times: []time.Time{at}, Map: map[int]*part{4: {Name: "m"}, 5: nil},
		},
	} {
		b, err := encode(v, mostInTests)
		if err != nil {
			t.Errorf("%T %.50v: %v", v, v, err)
			continue
		}
		got := reflect.New(reflect.TypeOf(v))
		if err := decode(b, got.Interface(), nil); err != nil {
			t.Errorf("%T %.50v: %v", v, v, err)
		} else if !reflect.DeepEqual(got.Elem().Interface(), v) {
			t.Errorf("%.100v, want %.100v", got.Elem(), v)
		}
	}
}

// TestSpecification decodes the examples of Hessian 2.0's specification.
func TestSpecification(t *testing.T) {
	at := time.Date(1998, 5, 8, 9, 51, 31, 0, time.UTC)
	car := map[string]any{"color": "red", "model": "corvette"}
	const class = "C\x0bexample.Car\x92\x05color\x05model"
	for in, want := range map[string]any{
		"N": nil, "T": true, "F": false,
		"\x20": []byte{}, "\x23\x01\x02\x03": []byte{1, 2, 3}, "\x34\x01x": []byte("x"), "A\x00\x01aB\x00\x01b": []byte("ab"),
		"\x4a\x00\x00\x00\xd0\x4b\x92\x84\xb8": at, "\x4b\x00\xe3\x83\x8f": at.Truncate(time.Minute),
		"\x5b": 0.0, "\x5c": 1.0, "\x5d\x00": 0.0, "\x5d\x80": -128.0, "\x5e\x00\x00": 0.0, "\x5e\x80\x00": -32768.0,
		"\x5f\x00\x00\x2f\xda": 12.25, "D\x40\x28\x80\x00\x00\x00\x00\x00": 12.25,
		"\x90": int32(0), "\x80": int32(-16), "\xbf": int32(47), "\xc8\x00": int32(0), "\xc0\x00": int32(-2048), "\xcf\xff": int32(2047),
		"\xd4\x00\x00": int32(0), "\xd0\x00\x00": int32(-262144), "\xd7\xff\xff": int32(262143), "I\x00\x00\x01\x2c": int32(300),
		"\xe0": int64(0), "\xd8": int64(-8), "\xef": int64(15), "\xf8\x00": int64(0), "\xf0\x00": int64(-2048), "\xff\xff": int64(2047),
		"\x3c\x00\x00": int64(0), "\x38\x00\x00": int64(-262144), "\x3f\xff\xff": int64(262143), "\x59\x00\x00\x01\x2c": int64(300),
		"L\x00\x00\x00\x00\x00\x00\x01\x2c": int64(300),
		"\x00":                              "", "\x05hello": "hello", "\x01\xc3\x83": "Ã", "\x30\x05hello": "hello", "S\x00\x05hello": "hello", "R\x00\x07hello, \x05world": "hello, world",
		"\x02\xed\xa0\xbd\xed\xb8\x80": "😀", "\x02\xf0\x9f\x98\x80": "😀", "\x02\xed\xa0\xbdx": "\ufffdx", "R\x00\x01\xed\xa0\xbd\x01\xed\xb8\x80": "😀",
		"V\x04[int\x92\x90\x91": []any{int32(0), int32(1)}, "\x57\x90\x91Z": []any{int32(0), int32(1)}, "\x72\x04[int\x90\x91": []any{int32(0), int32(1)},
		"\x7a\x90\x91": []any{int32(0), int32(1)}, "U\x01x\x90Z": []any{int32(0)}, "X\x90": []any{},
		"H\x05color\x03red\x05model\x08corvetteZ": car, "M\x13com.caucho.test.Car\x05color\x03red\x05model\x08corvetteZ": car,
		class + "O\x90\x03red\x08corvette": car, class + "\x60\x03red\x08corvette": car,
		"\x7a" + class + "\x60\x03red\x08corvetteQ\x91": []any{car, car},
		"\x7aM\x01tZM\x90Z":                             []any{map[string]any{}, map[string]any{}},
	} {
		var got any
		if err := decode([]byte(in), &got, nil); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v %v, want %v", in, got, err, want)
		}
	}
}

// TestReferences decodes references.
func TestReferences(t *testing.T) {
	const class = "C\x01p\x92\x04name\x04next"
	var list []*part
	if err := decode([]byte("\x7b"+class+"\x60\x01aQ\x91Q\x91N"), &list, nil); err != nil || list[0] != list[1] || list[0].Next != list[0] || list[2] != nil {
		t.Error(list, err)
	}
	var whole struct{ A, B map[string]int }
	if err := decode([]byte("H\x01aH\x01x\x91Z\x01bQ\x91Z"), &whole, nil); err != nil || whole.B["x"] != 1 {
		t.Error(whole, err)
	}
	for in, want := range map[string]string{
		"\x79Q\x90": "a part of",
		"\x79Q\x91": "reference to nothing",
		"\x79Q\x8f": "reference to nothing",
		"\x79QN":    "begins no value",
	} {
		var v []any
		if err := decode([]byte(in), &v, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	var differ struct {
		A map[string]int
		B map[string]string
	}
	if err := decode([]byte("H\x01aHZ\x01bQ\x91Z"), &differ, nil); err == nil || !strings.Contains(err.Error(), "is referred to as") {
		t.Error(err)
	}
}

// TestDecodeRefuses decodes malformed values, and values that do not fit.
func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		in   string
		into any
		want string
	}{
		{"", new(int), "unexpected EOF"},
		{"I\x00", new(int), "unexpected EOF"},
		{"\x90\x90", new(int), "1 bytes follow"},
		{"\x90", 5, "want a pointer"},
		{"@", new(any), "0x40 begins no value"},
		{"Z", new(any), "0x5a begins no value"},
		{"\x05a", new(string), "unexpected EOF"},
		{"\x01\xff", new(string), "no UTF-8"},
		{"R\x00\x00\x90", new(string), "0x90 continues no string"},
		{"L\x00\x00\x00\x01\x00\x00\x00\x00", new(int32), "4294967296 does not fit into int32"},
		{"\x8f", new(uint), "-1 does not fit into uint"},
		{"T", new(int), "bool does not fit into int"},
		{"\x01x", new([]byte), "string does not fit"},
		{"HZ", new(int), "does not fit into int"},
		{"HZ", new([]int), "does not fit into []int"},
		{"X\x90", new(map[string]int), "a list does not fit"},
		{"X\x90", new([3]int), "not into an array"},
		{"O\x90", new(any), "not described"},
		{"\x60", new(any), "not described"},
		{"M\x90Z", new(any), "bad name"},
		{"H\x90\x90Z", new(any), "does not fit into string"},
		{"H\x57Z\x90Z", new(map[any]int), "no key in Go"},
		{"C\x01aI\x7f\xff\xff\xff", new(any), "unexpected EOF"},
		{"C\x01aI\xff\xff\xff\xff", new(any), "bad length"},
		{"XI\xff\xff\xff\xff", new(any), "bad length"},
		{"C\x01a\x91\x01x\x60\x01y", new(string), "does not fit into string"},
		{strings.Repeat("\x57", 1<<20), new(any), "nested deeper than 64"},
		{strings.Repeat("H\x01x", 1<<18), new(any), "nested deeper than 64"},
		{strings.Repeat("C\x00\x90", 1<<18), new(any), "unexpected EOF"},
	} {
		if err := decode([]byte(c.in), c.into, nil); err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
			t.Errorf("%.20q: %.1000v, want %q", c.in, err, c.want)
		}
	}
}

// TestEncodeRefuses encodes values that Java does not have.
func TestEncodeRefuses(t *testing.T) {
	circle := &part{}
	circle.Next = circle
	type pointer *pointer
	var self pointer
	self = &self
	for want, v := range map[string]any{
		"nested deeper than":     circle,
		"chan int has no form":   make(chan int),
		"has no form in Java":    self,
		`field "fn": func()`:     struct{ Fn func() }{func() {}},
		"does not fit into Java": uint64(math.MaxUint64),
	} {
		if _, err := encode(v, mostInTests); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", v, err, want)
		}
	}
}

// chain returns a list of n lists. Each but the first contains the one before twice, by
// reference: without references it has more than two to the n bytes.
func chain(n int) string {
	b := "X" + string([]byte{0x90 + byte(n)}) + "\x78"
	for i := range n - 1 {
		before := string([]byte{'Q', 0x91 + byte(i)})
		b += "\x7a" + before + before
	}
	return b
}

// TestReferencesAreNotWrittenOut encodes values that are small only with references.
func TestReferencesAreNotWrittenOut(t *testing.T) {
	var short, long any
	if err := decode([]byte(chain(3)), &short, nil); err != nil {
		t.Fatal(err)
	}
	one := "X\x90"
	two := "X\x92" + one + one
	if b, err := encode(short, mostInTests); err != nil || string(b) != "X\x93"+one+two+"X\x92"+two+two {
		t.Errorf("%q, %v", b, err)
	}
	if err := decode([]byte(chain(40)), &long, nil); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{"list": long, "map": map[string]any{"a": long}, "field": struct{ A any }{long}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := encode(v, mostInTests)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errTooLong) || len(err.Error()) > 100 || taken > 8*mostInTests { // buffers that grow are taken again
			t.Errorf("%s: %v, after taking %d bytes", name, err, taken)
		}
	}
	pieces := strings.Repeat("x", mostInTests) // each has three more bytes
	if _, err := encode(pieces, mostInTests); !errors.Is(err, errTooLong) {
		t.Errorf("a string: %v", err)
	}
}

// TestLengthsTakeNoMemory decodes values that claim to be long.
func TestLengthsTakeNoMemory(t *testing.T) {
	const limit = 1 << 20
	for _, in := range []string{
		"XI\x05\xf5\xe1\x00", "VN", "V\x01xI\x7f\xff\xff\xff", "S\xff\xff", "B\xff\xff", "C\x01aI\x05\xf5\xe1\x00", "M\x01x",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var v any
		err := decode([]byte(in), &v, nil)
		runtime.ReadMemStats(&after)
		if err == nil || after.TotalAlloc-before.TotalAlloc > limit {
			t.Errorf("%q: %v, after taking %d bytes", in, err, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

func FuzzDecode(f *testing.F) {
	at := time.UnixMilli(1_234_567_890_123)
	for _, v := range []any{
		nil, "text 😀", []byte("bytes"), at, 1.5, 1 << 40, []any{1, int64(2), "x"}, map[string]any{"a": []string{"b"}},
		whole{Part: part{Name: "p"}, Parts: []part{{}, {}}, Map: map[int]*part{1: {}}, Colour: "RED"},
	} {
		b, err := encode(v, mostInTests)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x7bC\x01p\x92\x04name\x04next\x60\x01aQ\x91Q\x91N"))
	f.Add([]byte(chain(40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = decode(b, new(whole), nil)
		_ = decode(b, new([]*part), nil)
		_ = decode(b, new(colour), nil)
		var v any
		if decode(b, &v, nil) != nil {
			return
		}
		again, err := encode(v, mostInTests)
		if err != nil { // a value with many references to itself may be too deep, or too long, without them
			return
		}
		var w any
		if err := decode(again, &w, nil); err != nil {
			t.Fatalf("%q was encoded as %q: %v", b, again, err)
		}
	})
}

func FuzzUnwrap(f *testing.F) {
	f.Add([]byte("\x0a\x08hessian4\x12\x04\x03ann\x1a\x01S"))
	f.Add(wrapResponse([]byte("N")))
	f.Fuzz(func(t *testing.T, b []byte) {
		args, err := unwrapRequest(b)
		size := 0
		for _, arg := range args {
			size += len(arg)
		}
		if err == nil && size > len(b) {
			t.Fatalf("%d bytes of arguments in %d", size, len(b))
		}
	})
}
