package netrpc

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"net/rpc"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// stream returns the bytes that a client sends, by encoding/gob.
func stream(t testing.TB, values ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := gob.NewEncoder(&b)
	for _, v := range values {
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestMatch(t *testing.T) {
	p := New()
	first := stream(t, rpc.Request{ServiceMethod: "A.B", Seq: 7})
	decided := bytes.Index(first, []byte("Request")) + len("Request")
	for n := range len(first) + 1 {
		want := server.NeedMore
		if n >= decided {
			want = server.Yes
		}
		if got := p.Match(first[:n]); got != want {
			t.Errorf("%q: %v, want %v", first[:n], got, want)
		}
	}
	for said, want := range map[string]server.Verdict{
		"CONNECT /":           server.Yes,
		"CONNEC":              server.NeedMore,
		"CONNECT example.org": server.No,
		"GET / HTTP/1.1":      server.No,
		"{}":                  server.No,
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": server.No, // TLS
		string(stream(t, struct{ A int }{1})):          server.No, // a gob, but not a request
		string(stream(t, 1)):                           server.No,
	} {
		if got := p.Match([]byte(said)); got != want {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}

func TestParseMessage(t *testing.T) {
	for head, want := range map[string]message{
		"\x03\x04\x00\x02":     {id: 2, start: 1, end: 4},
		"\x20\x7f":             {id: -64, start: 1, end: 33},
		"\xfe\x01\x00\xff\x81": {id: -65, start: 3, end: 259},
	} {
		if m, err := parseMessage([]byte(head)); m != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", head, m, err, want)
		}
	}
	for head, want := range map[string]error{
		"":                                     io.ErrUnexpectedEOF,
		"\x03":                                 io.ErrUnexpectedEOF,
		"\xff":                                 io.ErrUnexpectedEOF,
		"\x03\xff":                             io.ErrUnexpectedEOF,
		"\x00\x04":                             errNotGob, // no bytes
		"\xfc\x40\x00\x00\x00\x04":             errNotGob, // 1 GiB
		"\xf8\x80\x00\x00\x00\x00\x00\x00\x04": errNotGob, // 2^63 bytes
		"\xf7\x00\x00\x00\x00\x00\x00\x00\x00": errNotGob, // a number of 9 bytes
		"\x03\x00":                             errNotGob, // type 0
		"\x01\xff\x81":                         errNotGob, // the type is longer than the message
	} {
		if m, err := parseMessage([]byte(head)); !errors.Is(err, want) {
			t.Errorf("%q: %v, %v, want %v", head, m, err, want)
		}
	}
}

// Each value that the reader returns is a complete gob, however the stream is split.
func TestValuesStandAlone(t *testing.T) {
	type leaf struct{ S string }
	type tree struct {
		M map[string]leaf
		L []leaf
	}
	long := string(bytes.Repeat([]byte("long"), 50_000))
	all := stream(t, rpc.Request{ServiceMethod: "A.B"}, tree{L: []leaf{{"x"}}}, 7, leaf{long}, tree{M: map[string]leaf{"k": {"v"}}})
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(all), "bytes": iotest.OneByteReader(bytes.NewReader(all)), "halves": iotest.HalfReader(bytes.NewReader(all)),
	} {
		in := gobReader{r: bufio.NewReaderSize(r, 64)}
		var values [5][]byte
		for i := range values {
			var err error
			if values[i], err = in.value(nil, 1<<20); err != nil {
				t.Fatal(name, err)
			}
		}
		if _, err := in.value(nil, 1); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: at the end: %v", name, err)
		}
		var n int
		var l leaf
		var last tree
		c := codec.Gob()
		if err := errors.Join(c.Decode(values[4], &last), c.Decode(values[3], &l), c.Decode(values[2], &n)); err != nil || n != 7 || l.S != long || last.M["k"].S != "v" {
			t.Errorf("%s: %v %v %v", name, n, last, err)
		}
	}
}

// The reader divides any stream as encoding/gob does, however it is split: it finds the
// same number of values, unless one is larger than the limit, and takes no more memory than the stream's size, besides
// read-ahead and type descriptions.
func FuzzReader(f *testing.F) {
	f.Add(stream(f, rpc.Request{ServiceMethod: "A.B"}, struct{ A, B int }{7, 8}, 7, "text"), 100)
	f.Add(stream(f, rpc.Request{ServiceMethod: "A.B"}, make([]byte, 300)), 100)
	f.Add([]byte{0xf8, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0xff, 2}, 1<<30)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		whole, why := read(t, bytes.NewReader(data), limit, len(data))
		byBytes, _ := read(t, iotest.OneByteReader(bytes.NewReader(data)), limit, len(data))
		if whole != byBytes {
			t.Fatalf("%d values at once, %d byte by byte", whole, byBytes)
		}
		dec := gob.NewDecoder(bytes.NewReader(data))
		for n := 0; ; n++ {
			if err := dec.DecodeValue(reflect.Value{}); err != nil {
				break
			}
			// encoding/gob cuts off numbers of types at 32 bits; no encoder writes longer ones.
			if n == whole && len(data) <= min(limit, maxTypes) && !errors.Is(why, errTypeSize) {
				t.Fatalf("encoding/gob reads more than %d values", whole)
			}
		}
		_ = matchGob(data)
	})
}

func read(t *testing.T, r io.Reader, limit, size int) (values int, why error) {
	in := gobReader{r: bufio.NewReaderSize(r, 64)}
	for {
		v, err := in.value(nil, limit)
		if cap(v) > 4*size+2*piece+2*len(in.types) {
			t.Fatalf("%d bytes taken for %d", cap(v), size)
		}
		if err != nil && !errors.As(err, new(*skipped)) {
			return values, err
		}
		values++
	}
}

// A type is described to a client once, and never in two ways.
func TestAppendNew(t *testing.T) {
	c := &conn{gob: codec.Gob(), sent: told{}}
	var out []byte
	for range 3 {
		for _, v := range []any{response{Seq: 1}, struct{}{}, struct{ A []string }{[]string{"a"}}} {
			b, err := codec.Append(c.gob, nil, v)
			if err == nil {
				out, err = c.sent.appendNew(out, b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	dec := gob.NewDecoder(bytes.NewReader(out))
	for i := range 9 {
		if err := dec.DecodeValue(reflect.Value{}); err != nil {
			t.Fatalf("value %d: %v", i, err)
		}
	}
	b, _ := codec.Append(c.gob, nil, response{})
	for id := range c.sent {
		c.sent[id] += "x"
	}
	if _, err := c.sent.appendNew(nil, b); err == nil {
		t.Error("a type is described in two ways")
	}
}
