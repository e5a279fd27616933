package protobuf_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem/codec/codectest"
	"github.com/tandem-rpc/tandem/codec/protobuf"
)

// vtMessage and gogoMessage have the methods that their generators write, which
// encode by a message of the standard runtime, so that the bytes are protobuf.
type (
	vtMessage   struct{ M wrapperspb.StringValue }
	gogoMessage struct{ M wrapperspb.StringValue }
)

func (m *vtMessage) SizeVT() int                { return proto.Size(&m.M) }
func (m *vtMessage) MarshalVT() ([]byte, error) { return nil, errors.New("the slow way") }
func (m *vtMessage) UnmarshalVT(b []byte) error {
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(b, &m.M)
}
func (m *vtMessage) Reset()                     { proto.Reset(&m.M) }
func (m *gogoMessage) Marshal() ([]byte, error) { return proto.Marshal(&m.M) }
func (m *gogoMessage) Unmarshal(b []byte) error {
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(b, &m.M)
}
func (m *gogoMessage) ProtoMessage() {}
func (m *gogoMessage) Reset()        { proto.Reset(&m.M) }

func (m *vtMessage) MarshalToSizedBufferVT(b []byte) (int, error) {
	out, err := proto.Marshal(&m.M)
	return copy(b[len(b)-len(out):], out), err
}

// vtTree and gogoTree can contain themselves.
type (
	vtTree   struct{ M structpb.Value }
	gogoTree struct{ M structpb.Value }
)

func (m *vtTree) MarshalVT() ([]byte, error) { return proto.Marshal(&m.M) }
func (m *vtTree) UnmarshalVT(b []byte) error { return proto.Unmarshal(b, &m.M) }
func (m *gogoTree) ProtoMessage()            {}
func (m *gogoTree) Marshal() ([]byte, error) { return proto.Marshal(&m.M) }
func (m *gogoTree) Unmarshal(b []byte) error { return proto.Unmarshal(b, &m.M) }

// both is a proto.Message that also has vtprotobuf's methods.
type both struct {
	wrapperspb.StringValue
	used bool
}

func (m *both) MarshalVT() ([]byte, error) { m.used = true; return proto.Marshal(&m.StringValue) }
func (m *both) UnmarshalVT(b []byte) error { m.used = true; return proto.Unmarshal(b, &m.StringValue) }

func sampleStruct(t testing.TB) *structpb.Struct {
	t.Helper()
	lines := make([]any, 8)
	for i := range lines {
		lines[i] = map[string]any{"article": fmt.Sprint("lamp ", i), "count": i, "price": 69.5}
	}
	s, err := structpb.NewStruct(map[string]any{"customer": "Hercule & Söhne", "lines": lines, "paid": true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCodec(t *testing.T) {
	codectest.Run(t, protobuf.Codec(), sampleStruct(t), timestamppb.New(time.Unix(1e9, 5)),
		wrapperspb.String("text"), &vtMessage{*wrapperspb.String("vt")}, &gogoMessage{*wrapperspb.String("gogo")})
}

// TestSameBytes checks that all kinds of types write and read the same bytes.
func TestSameBytes(t *testing.T) {
	c := protobuf.Codec()
	want, err := proto.Marshal(wrapperspb.String("text"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{wrapperspb.String("text"), &vtMessage{*wrapperspb.String("text")}, &gogoMessage{*wrapperspb.String("text")}} {
		if got, err := c.Append(nil, v); err != nil || string(got) != string(want) {
			t.Errorf("%T: %q, %v", v, got, err)
		}
	}
}

func TestPrefersOwnMethods(t *testing.T) {
	c, m := protobuf.Codec(), new(both)
	if _, err := c.Append(nil, m); err != nil || !m.used {
		t.Errorf("Append: used %v, %v", m.used, err)
	}
	m.used = false
	if err := c.Decode(nil, m); err != nil || !m.used {
		t.Errorf("Decode: used %v, %v", m.used, err)
	}
}

// TestResets checks that messages are reset before they are decoded into.
func TestResets(t *testing.T) {
	c := protobuf.Codec()
	old := func() wrapperspb.StringValue { return *wrapperspb.String("old") }
	p, v, g := old(), &vtMessage{old()}, &gogoMessage{old()}
	for _, m := range []any{&p, v, g} {
		if err := c.Decode(nil, m); err != nil {
			t.Fatal(err)
		}
	}
	if p.Value+v.M.Value+g.M.Value != "" {
		t.Fatalf("left over: %q %q %q", p.Value, v.M.Value, g.M.Value)
	}
}

func TestTypes(t *testing.T) {
	c := protobuf.Codec()
	type notProto struct{ S string }
	for _, v := range []any{5, "text", &notProto{}, new(*notProto), (**notProto)(nil)} {
		if _, err := c.Append(nil, v); err == nil {
			t.Errorf("%T was encoded", v)
		}
		if err := c.Decode([]byte{8, 1}, v); err == nil {
			t.Errorf("%T was decoded into", v)
		}
	}
	if err := c.Decode(nil, (*wrapperspb.StringValue)(nil)); err == nil {
		t.Error("a nil message was decoded into")
	}
	if b, err := c.Append(nil, (*wrapperspb.StringValue)(nil)); err != nil || len(b) != 0 {
		t.Errorf("a nil message became %q, %v", b, err)
	}
}

func TestPointerToPointer(t *testing.T) {
	c := protobuf.Codec()
	src, err := c.Append(nil, wrapperspb.String("text"))
	if err != nil {
		t.Fatal(err)
	}
	var p *wrapperspb.StringValue
	if err := c.Decode(src, &p); err != nil || p.GetValue() != "text" {
		t.Fatalf("%v, %v", p, err)
	}
	if err := c.Decode([]byte{0xff}, &p); err == nil || p.GetValue() != "text" {
		t.Fatalf("%v, %v", p, err)
	}
}

func TestDepth(t *testing.T) {
	c := protobuf.Codec()
	nested := func(n int) []byte {
		v := structpb.NewNumberValue(1)
		for range n {
			v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
		}
		b, err := proto.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := c.Decode(nested(45), new(structpb.Value)); err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{new(structpb.Value), new(vtTree), new(gogoTree)} {
		if err := c.Decode(nested(60), v); err == nil {
			t.Errorf("%T: 120 levels were accepted", v)
		}
	}
}

// TestDeclaredLengthBeyondTheMessage checks a declared length that exceeds the message.
func TestDeclaredLengthBeyondTheMessage(t *testing.T) {
	for _, v := range []any{new(wrapperspb.BytesValue), new(structpb.Struct), new(vtMessage), new(gogoMessage)} {
		src := []byte("\x0a\xff\xff\xff\xff\x07")
		var err error
		got := codectest.Allocated(func() { err = protobuf.Codec().Decode(src, v) })
		if err == nil || got > codectest.Bound(len(src)) {
			t.Errorf("%T: %d bytes allocated, error %v", v, got, err)
		}
	}
}

func FuzzDecodeProtobuf(f *testing.F) {
	codectest.Fuzz(f, protobuf.Codec(), 256, sampleStruct(f), wrapperspb.String("text"),
		&vtMessage{*wrapperspb.String("vt")}, &gogoMessage{*wrapperspb.String("gogo")})
}

func BenchmarkProtobuf(b *testing.B) {
	codectest.Benchmark(b, protobuf.Codec(), wrapperspb.String(strings.Repeat("0123456789", 60)))
}

func BenchmarkProtobufStruct(b *testing.B) {
	codectest.Benchmark(b, protobuf.Codec(), sampleStruct(b))
}

func Example() {
	c := protobuf.Codec()
	src, err := c.Append(nil, wrapperspb.String("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	var m wrapperspb.StringValue
	err = c.Decode(src, &m)
	fmt.Println(len(src), m.GetValue(), err)
	// Output: 7 hello <nil>
}
