package protobuf_test

import (
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
	"github.com/tandem-rpc/tandem/codec/protobuf"
)

// expected is a Memory that records the bytes of Expect.
type expected int64

func (e *expected) Expect(n int64) error {
	*e += expected(n)
	return nil
}

func TestEstimates(t *testing.T) {
	const n = 20_000
	empty, texts, tree := &structpb.ListValue{}, &fieldmaskpb.FieldMask{}, &structpb.Struct{Fields: map[string]*structpb.Value{}}
	file, numbers := &descriptorpb.FileDescriptorProto{}, &descriptorpb.SourceCodeInfo_Location{}
	for i := range n {
		empty.Values = append(empty.Values, &structpb.Value{})
		texts.Paths = append(texts.Paths, "a")
		tree.Fields[strconv.Itoa(i)] = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue("x")}})
		file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{})
		numbers.Path = append(numbers.Path, 1)
	}
	for name, m := range map[string]proto.Message{
		"empty messages": empty, "texts": texts, "a map of oneofs": tree, "wide messages": file, "packed numbers": numbers,
		"bytes": wrapperspb.Bytes(make([]byte, 1<<20)),
	} {
		src, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		into := m.ProtoReflect().New().Interface()
		var e expected
		got := codectest.Allocated(func() { err = codec.DecodeWithin(protobuf.Codec(), src, into, &e) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d bytes: estimate %d, allocated %d", name, len(src), e, got)
		if uint64(e) < got/5 || uint64(e) > 4*got+uint64(len(src)) {
			t.Errorf("%s: estimate %d, allocated %d", name, e, got)
		}
	}
}
