package thrift

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
)

// The names are those that the compiler made for an interface of them.
func TestGoNames(t *testing.T) {
	for name, want := range map[string]string{
		"get_id": "GetID", "getUrl": "GetUrl", "get_2x": "Get_2x", "newThing": "NewThing_", "a__b": "A_B", "a_B": "A_B",
		"http_get": "HTTPGet", "userId": "UserId", "id": "ID", "x_": "X_", "getIds": "GetIds", "id_of_url": "IDOfURL",
		"fooArgs": "FooArgs_", "doIdResult": "DoIdResult_", "": "", "_": "_", "Ä": "Ä",
	} {
		if got := goName(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// A head is what Apache's library writes, and no part of it is one.
func TestHead(t *testing.T) {
	for _, f := range []format{formatBinary, formatCompact} {
		for _, want := range []head{
			{f, apache.CALL, "add", 1}, {f, apache.ONEWAY, "", -1}, {f, apache.CALL, strings.Repeat("x", maxName), 1 << 30},
		} {
			out := &memory{}
			if err := newGuard(f, out).WriteMessageBegin(context.Background(), want.name, want.kind, want.seq); err != nil {
				t.Fatal(err)
			}
			got, n, err := parseHead(append(out.b, "more"...))
			if err != nil || n != len(out.b) || got != want {
				t.Errorf("%v: %v of %d, %v", want, got, n, err)
			}
			for cut := range out.b {
				if _, _, err := parseHead(out.b[:cut]); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%q: %v", out.b[:cut], err)
				}
			}
		}
	}
}

// all lets every name be a method's, with that limit.
func all(limit int) finder {
	return func(string) (*server.Method, int) { return nil, limit }
}

// sample is the content of a request's message.
type sample struct {
	Paper  *desk.Paper         `thrift:"paper,1"`
	Number int32               `thrift:"number,2,required"`
	Names  map[string][]int64  `thrift:"names,3"`
	Set    map[string]struct{} `thrift:"set,4"`
	IDs    []apache.Tuuid      `thrift:"ids,5,set"`
	Below  *sample             `thrift:"below,6"`
	Ratio  float32             `thrift:"ratio,7"`
	Kind   desk.Kind           `thrift:"kind,8"`
	Octet  byte                `thrift:"octet,9"`
	Yes    []bool              `thrift:"yes,10"`
}

func newSample() *sample {
	return &sample{
		Paper: &desk.Paper{Title: "t", Tags: []string{"a"}, Sums: map[string]int64{"a": 1}}, Number: 1,
		Names: map[string][]int64{"a": {1, 2}}, Set: map[string]struct{}{"x": {}}, IDs: []apache.Tuuid{{1}, {2}},
		Below: &sample{Number: 2}, Ratio: 0.5, Kind: desk.Kind_RARE, Octet: 200, Yes: []bool{true, false},
	}
}

// encoded returns a message with a value.
func encoded(t testing.TB, f format, v any) []byte {
	t.Helper()
	out := &memory{}
	e := &encoder{newGuard(f, out), &types{}, context.Background()}
	if err := e.WriteMessageBegin(e.ctx, "add", apache.CALL, 9); err != nil {
		t.Fatal(err)
	}
	if err := e.structure(reflect.ValueOf(v).Elem()); err != nil {
		t.Fatal(err)
	}
	return out.b
}

// framed puts a length, and a header if there is one, before a message.
func framed(t testing.TB, h *header, message []byte) []byte {
	t.Helper()
	c := &call{reply: message, request: request{framed: true, header: h}}
	if h != nil {
		c.Trailer = h.metadata
	}
	b, err := c.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzRequest(f *testing.F) {
	for _, format := range []format{formatBinary, formatCompact} {
		message := encoded(f, format, newSample())
		f.Add(message)
		f.Add(framed(f, nil, message))
		f.Add(framed(f, &header{format: format, metadata: tandem.Metadata{"a": {"b"}}}, message))
		long := encoded(f, format, &sample{Paper: &desk.Paper{Title: strings.Repeat("x", 2*compressAbove)}})
		f.Add(framed(f, &header{format: format, zlib: true}, long))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 64 << 10
		r := bufio.NewReaderSize(bytes.NewReader(data), readBuffer)
		var q request
		refused, err := q.read(r, all(limit))
		if err != nil || refused != nil {
			return
		}
		message := q.message
		if q.header != nil && q.header.zlib {
			if message, err = inflate(message, q.args+limit); err != nil {
				return
			}
		}
		if len(message)-q.args > limit {
			t.Fatalf("%d bytes", len(message))
		}
		in := &memory{b: message, off: q.args}
		if !q.framed {
			if err := newGuard(q.format, in).Skip(context.Background(), apache.STRUCT); err != nil || in.RemainingBytes() != 0 {
				t.Fatalf("what was found to be a message: %v, %d bytes left", err, in.RemainingBytes())
			}
			in.off = q.args
		}
		decodeAgain(t, q.format, in)
	})
}

// decodeAgain decodes a sample, if it is one; then encoded and decoded again it must be
// the same.
func decodeAgain(t *testing.T, f format, in *memory) {
	ts, ctx := &types{}, context.Background()
	var first, second sample
	d := &decoder{newGuard(f, in), ts, ctx}
	if d.structure(reflect.ValueOf(&first).Elem()) != nil {
		return
	}
	write := func(v *sample) ([]byte, error) {
		out := &memory{}
		err := (&encoder{newGuard(f, out), ts, ctx}).structure(reflect.ValueOf(v).Elem())
		return out.b, err
	}
	b, err := write(&first)
	if err != nil { // a set with an element twice
		return
	}
	d = &decoder{newGuard(f, &memory{b: b}), ts, ctx}
	if err := d.structure(reflect.ValueOf(&second).Elem()); err != nil {
		t.Fatal(err)
	}
	if again, err := write(&second); err != nil || len(again) != len(b) { // maps are written in any order
		t.Fatalf("%q is not %q: %v", again, b, err)
	}
}

func FuzzHeader(f *testing.F) {
	for _, h := range []*header{
		{}, {format: formatCompact, zlib: true, flags: 1, seq: 2}, {metadata: tandem.Metadata{"key": {"value"}, "": {""}}},
	} {
		b, err := h.append(nil, h.zlib, h.metadata)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerLen {
			return
		}
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		made, err := h.append(nil, h.zlib, h.metadata)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseHeader(made)
		if err != nil || again.flags != h.flags || again.seq != h.seq || again.format != h.format || again.zlib != h.zlib ||
			!slices.Equal(slices.Sorted(maps.Keys(again.metadata)), slices.Sorted(maps.Keys(h.metadata))) {
			t.Fatalf("%+v, %v is not %+v", again, err, h)
		}
	})
}

// Nothing that a client can send takes much more memory than it has bytes.
func TestMemoryFollowsBytes(t *testing.T) {
	for name, body := range map[string]string{
		"a map of lists":        "\x0d\x00\x03\x0b\x0f\x00\xff\xff\xff\x00\x00\x00\x00\x0a\x00\xff\xff\xff",
		"a list of bools":       "\x0f\x00\x0a\x02\x7f\xff\xff\xff\x01",
		"a generated string":    "\x0c\x00\x01\x0b\x00\x02\x00\xff\xff\xff",
		"a generated list":      "\x0c\x00\x01\x0f\x00\x06\x0b\x00\xff\xff\xff",
		"a generated map":       "\x0c\x00\x01\x0d\x00\x08\x0b\x0a\x00\xff\xff\xff",
		"lists of other types":  "\x0c\x00\x01\x0f\x00\x06\x00\x00\xff\xff\xff",
		"a list that overflows": "\x0c\x00\x01\x0f\x00\x06\x0a\x40\x00\x00\x00",
	} {
		in := &memory{b: append([]byte(body), make([]byte, 1<<10)...)}
		d := &decoder{newGuard(formatBinary, in), &types{}, context.Background()}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := d.structure(reflect.ValueOf(&sample{}).Elem())
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 256<<10 {
			t.Errorf("%s: %d bytes for %d", name, taken, len(in.b))
		}
	}
}

// Types that can't be served, in words.
func TestTypesThatCannotBe(t *testing.T) {
	for want, v := range map[string]any{
		"has no tags": &struct{ A int }{},
		`is no tag like`: &struct {
			a int `thrift:"a,1"`
		}{},
		"two fields with the number 1": &struct {
			A int `thrift:"a,1"`
			B int `thrift:"b,1"`
		}{},
		"holds a chan int": &struct {
			A chan int `thrift:"a,1"`
		}{},
		"holds a **int": &struct {
			A **int `thrift:"a,1"`
		}{},
		`"sett" in a tag`: &struct {
			A []int `thrift:"a,1,sett"`
		}{},
		"value out of range": &struct {
			A int `thrift:"a,40000"`
		}{},
	} {
		_, err := new(types).layoutOf(reflect.TypeOf(v).Elem())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", v, err, want)
		}
	}
	if d := declare(&types{}, 7, nil); d.err == nil {
		t.Error("a number is a struct of parameters")
	}
	type result struct {
		Text string `thrift:"text,1"`
	}
	if d := declare(&types{}, nil, result{}); d.err == nil {
		t.Error("a text is an exception")
	}
}

// A field that is required must be there, in both directions.
func TestRequired(t *testing.T) {
	type required struct {
		Text *string `thrift:"text,1,required"`
	}
	d := &decoder{newGuard(formatBinary, &memory{b: []byte{0}}), &types{}, context.Background()}
	if err := d.structure(reflect.ValueOf(&required{}).Elem()); err == nil || !strings.Contains(err.Error(), `"text", is required`) {
		t.Errorf("read: %v", err)
	}
	e := &encoder{newGuard(formatBinary, &memory{}), &types{}, context.Background()}
	if err := e.value(apache.STRUCT, reflect.ValueOf(required{})); err == nil || !strings.Contains(err.Error(), "is required, and nil") {
		t.Errorf("written: %v", err)
	}
}

// loop is a value without an end.
type loop struct {
	Next *loop `thrift:"next,1"`
}

func TestValuesWithoutEnd(t *testing.T) {
	l := &loop{}
	l.Next = l
	e := &encoder{newGuard(formatCompact, &memory{}), &types{}, context.Background()}
	if err := e.value(apache.STRUCT, reflect.ValueOf(l)); !errors.Is(err, errNesting) {
		t.Errorf("written: %v", err)
	}
	p := &desk.Paper{}
	p.Answers = p
	if err := e.value(apache.STRUCT, reflect.ValueOf(p)); err == nil {
		t.Error("written by generated code")
	}
}

// A message that is compressed is the same as one that is not.
func TestInflate(t *testing.T) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	plain := encoded(t, formatCompact, newSample())
	_, _ = w.Write(plain)
	w.Close()
	for range 2 { // the second time with what the first has left
		got, err := inflate(packed.Bytes(), len(plain))
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%q, %v", got, err)
		}
		if _, err := inflate(packed.Bytes(), len(plain)-1); !errors.Is(err, errTooLong) {
			t.Fatal(err)
		}
		if _, err := inflate(packed.Bytes()[:20], 1<<20); err == nil {
			t.Fatal("half is enough")
		}
	}
}
