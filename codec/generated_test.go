package codec_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
)

var errBad = errors.New("bad encoding")

// text is embedded in the types below. Its encoding is a length and bytes.
type text struct{ S string }

func (m *text) size() int { return 4 + len(m.S) }

func (m *text) appendTo(dst []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(m.S))), m.S...)
}

func (m *text) fill(b []byte) int { return len(m.appendTo(b[:0])) }

func (m *text) parse(b []byte) (int, error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
		return 0, errBad
	}
	end := 4 + int(binary.BigEndian.Uint32(b))
	m.S = string(b[4:end])
	return end, nil
}

func (m *text) parseAll(b []byte) error {
	n, err := m.parse(b)
	if err == nil && n != len(b) {
		err = errBad
	}
	return err
}

// The shapes, as their generators write them. They are not protobuf, but the
// codec can't tell: it only looks at methods.
type (
	vtType       struct{ text } // vtprotobuf
	vtPlain      struct{ text } // vtprotobuf with the marshal feature alone
	gogoType     struct{ text } // gogo/protobuf, stable marshaler
	gogoOld      struct{ text } // gogo/protobuf, marshaler
	plainType    struct{ text } // Marshal and Unmarshal by hand
	appendType   struct{ text } // MarshalAppend
	gencodeType  struct{ text } // gencode
	binaryType   struct{ text } // encoding's interfaces, as colfer has
	binAppending struct{ text } // the newer of them
)

func (m *vtType) SizeVT() int { return m.size() }
func (m *vtType) MarshalToSizedBufferVT(b []byte) (int, error) {
	return m.fill(b[len(b)-m.size():]), nil
}
func (m *vtType) MarshalVT() ([]byte, error) { return nil, errors.New("the slow way") }
func (m *vtType) UnmarshalVT(b []byte) error { return m.parseAll(b) }

func (m *vtPlain) MarshalVT() ([]byte, error) { return m.appendTo(nil), nil }
func (m *vtPlain) UnmarshalVT(b []byte) error { return m.parseAll(b) }

func (m *gogoType) Size() int                       { return m.size() }
func (m *gogoType) Marshal() ([]byte, error)        { return nil, errors.New("the slow way") }
func (m *gogoType) MarshalTo(b []byte) (int, error) { return 0, errors.New("the old way") }
func (m *gogoType) MarshalToSizedBuffer(b []byte) (int, error) {
	return m.fill(b[len(b)-m.size():]), nil
}
func (m *gogoType) Unmarshal(b []byte) error { return m.parseAll(b) }

func (m *gogoOld) Size() int                       { return m.size() }
func (m *gogoOld) Marshal() ([]byte, error)        { return nil, errors.New("the slow way") }
func (m *gogoOld) MarshalTo(b []byte) (int, error) { return m.fill(b), nil }
func (m *gogoOld) Unmarshal(b []byte) error        { return m.parseAll(b) }

func (m *plainType) Marshal() ([]byte, error) { return m.appendTo(nil), nil }
func (m *plainType) Unmarshal(b []byte) error { return m.parseAll(b) }

func (m *appendType) MarshalAppend(dst []byte) ([]byte, error) { return m.appendTo(dst), nil }
func (m *appendType) Unmarshal(b []byte) error                 { return m.parseAll(b) }

func (m *gencodeType) Size() uint64 { return uint64(m.size()) }

func (m *gencodeType) Marshal(b []byte) ([]byte, error) {
	if cap(b) >= m.size() {
		b = b[:m.size()]
	} else {
		b = make([]byte, m.size())
	}
	return b[:m.fill(b)], nil
}

// Unmarshal panics on short input, as gencode's does.
func (m *gencodeType) Unmarshal(b []byte) (uint64, error) {
	n := uint64(binary.BigEndian.Uint32(b))
	m.S = string(b[4 : 4+n])
	return 4 + n, nil
}

func (m *binaryType) MarshalBinary() ([]byte, error) { return m.appendTo(nil), nil }
func (m *binaryType) UnmarshalBinary(b []byte) error { return m.parseAll(b) }

func (m *binAppending) MarshalBinary() ([]byte, error)          { return nil, errors.New("the slow way") }
func (m *binAppending) AppendBinary(dst []byte) ([]byte, error) { return m.appendTo(dst), nil }
func (m *binAppending) UnmarshalBinary(b []byte) error          { return m.parseAll(b) }

// generatedSamples returns a value of each shape.
func generatedSamples() []any {
	m := text{strings.Repeat("some text ", 20)}
	now := time.Unix(1e9, 0).UTC()
	return []any{&vtType{m}, &vtPlain{m}, &gogoType{m}, &gogoOld{m}, &plainType{m},
		&appendType{m}, &gencodeType{m}, &binaryType{m}, &binAppending{m}, &now}
}

func TestGenerated(t *testing.T) {
	codectest.Run(t, codec.Generated(), generatedSamples()...)
}

// TestGeneratedNoCopy checks that methods that write in place do not allocate.
func TestGeneratedNoCopy(t *testing.T) {
	c, m := codec.Generated(), text{"text"}
	room := make([]byte, 0, 100)
	for _, v := range []any{&vtType{m}, &gogoType{m}, &gogoOld{m}, &appendType{m}, &gencodeType{m}, &binAppending{m}} {
		n := testing.AllocsPerRun(100, func() {
			if _, err := c.Append(room, v); err != nil {
				t.Error(err)
			}
		})
		if n != 0 {
			t.Errorf("%T: %v allocations", v, n)
		}
	}
}

func TestGeneratedValues(t *testing.T) {
	c := codec.Generated()
	src, err := c.Append(nil, vtType{text{"by value"}})
	if err != nil {
		t.Fatal(err)
	}
	var p *vtType
	if err := c.Decode(src, &p); err != nil || p.S != "by value" {
		t.Fatalf("%+v, %v", p, err)
	}
}

func TestGeneratedTypes(t *testing.T) {
	c := codec.Generated()
	for _, v := range []any{5, &struct{}{}, new(*int)} {
		_, err := codec.Append(c, nil, v)
		if err == nil || !strings.Contains(err.Error(), "MarshalVT") {
			t.Errorf("%T: error %v", v, err)
		}
		err = codec.Decode(c, []byte("x"), v)
		if err == nil || !strings.Contains(err.Error(), "UnmarshalVT") {
			t.Errorf("%T: error %v", v, err)
		}
	}
}

// wrongSize writes fewer bytes than its Size returns.
type wrongSize struct{}

func (*wrongSize) Size() int                       { return 10 }
func (*wrongSize) MarshalTo(b []byte) (int, error) { return 3, nil }

// panicking has methods that panic, as methods do that do not check their input.
type panicking struct{}

func (*panicking) Marshal() ([]byte, error) { panic("no ink") }
func (*panicking) Unmarshal(b []byte) error { _ = b[1000]; return nil }

func TestGeneratedFaults(t *testing.T) {
	c := codec.Generated()
	if _, err := c.Append(nil, new(wrongSize)); err == nil || !strings.Contains(err.Error(), "3 were written") {
		t.Errorf("wrong size: %v", err)
	}
	if _, err := c.Append(nil, new(panicking)); err == nil || !strings.Contains(err.Error(), "panicking panicked: no ink") {
		t.Errorf("panic in Marshal: %v", err)
	}
	if err := c.Decode([]byte("x"), new(panicking)); err == nil || !strings.Contains(err.Error(), "panicking panicked") {
		t.Errorf("panic in Unmarshal: %v", err)
	}
	if err := c.Decode([]byte{0, 0, 0, 0, 1}, new(gencodeType)); err == nil || !strings.Contains(err.Error(), "4 of 5 bytes") {
		t.Errorf("bytes left over: %v", err)
	}
}

// growing is a gencode shape whose Marshal does not keep to its size.
type growing struct{ text }

func (m *growing) Size() uint64                     { return 1 }
func (m *growing) Marshal(b []byte) ([]byte, error) { return m.appendTo(b), nil }

// elsewhere is a gencode shape whose Marshal has a buffer of its own.
type elsewhere struct{ text }

func (m *elsewhere) Size() uint64                     { return 100 }
func (m *elsewhere) Marshal(b []byte) ([]byte, error) { return m.appendTo(nil), nil }

func TestGencodeOtherBuffer(t *testing.T) {
	for _, v := range []any{&growing{text{"abc"}}, &elsewhere{text{"abc"}}} {
		got, err := codec.Generated().Append([]byte("head"), v)
		if err != nil || string(got) != "head\x00\x00\x00\x03abc" {
			t.Errorf("%T: %q, %v", v, got, err)
		}
	}
}

// tree decodes recursively, as generated protobuf code does. Field 1 is the
// child.
type tree struct {
	depth int
	child *tree
}

func (m *tree) Reset()        { *m = tree{} }
func (m *tree) ProtoMessage() {}

func (m *tree) Unmarshal(b []byte) error {
	for len(b) > 0 {
		n, k := binary.Uvarint(b[1:])
		if b[0] != 1<<3|2 || k <= 0 || n > uint64(len(b)-1-k) {
			return errBad
		}
		m.child = new(tree)
		if err := m.child.Unmarshal(b[1+k : 1+k+int(n)]); err != nil {
			return err
		}
		m.depth = max(m.depth, m.child.depth)
		b = b[1+k+int(n):]
	}
	m.depth++
	return nil
}

func nestedProto(levels int, inner ...byte) []byte {
	b := inner
	for range levels {
		b = append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(b))), b...)
	}
	return b
}

// overlong is a number of ten bytes that has a bit beyond 64.
func overlong(n int) (b []byte) {
	for range 9 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, 2)
}

func TestProtoDepth(t *testing.T) {
	c, m := codec.Generated(), new(tree)
	if err := c.Decode(nestedProto(100), m); err != nil || m.depth != 101 {
		t.Fatalf("depth %d: %v", m.depth, err)
	}
	m.depth = 1000 // for Reset to clear
	if err := c.Decode(nestedProto(1), m); err != nil || m.depth != 2 {
		t.Fatalf("depth %d: %v", m.depth, err)
	}
	group, inner := []byte(strings.Repeat("\x0b", 101)), nestedProto(101)
	for name, src := range map[string][]byte{
		"too deep":             nestedProto(102),
		"far too deep":         nestedProto(20_000),
		"too deep, then wrong": nestedProto(150, 0xff),
		"after other fields":   append(nestedProto(3), nestedProto(102)...),
		"groups":               append(group, 0x0b, 0x08, 1),
		// Generated code drops the bits of a number of ten bytes beyond 64, and goes on.
		"after a long number": slices.Concat([]byte{0x10}, overlong(1), nestedProto(102)),
		"with a long length":  slices.Concat([]byte{1<<3 | 2}, overlong(len(inner)), inner),
	} {
		if err := c.Decode(src, m); err == nil || !strings.Contains(err.Error(), "deeper than 100") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, src := range map[string][]byte{
		"text":          []byte(strings.Repeat("2 \n", 5000)),
		"groups closed": []byte(strings.Repeat("\x0b\x0c", 500)),
		"other types":   []byte("\x08\x96\x01\x11\x01\x02\x03\x04\x05\x06\x07\x08\x1d\x01\x02\x03\x04"),
	} {
		if err := c.Decode(src, m); err != nil && strings.Contains(err.Error(), "deeper") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzDecodeGenerated(f *testing.F) {
	codectest.Fuzz(f, codec.Generated(), 16, &vtType{text{"a"}}, &gogoType{text{"b"}}, &binAppending{text{"c"}})
}

func BenchmarkGenerated(b *testing.B) {
	codectest.Benchmark(b, codec.Generated(), &vtType{text{strings.Repeat("0123456789", 60)}})
}
