package protobuf_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/protobuf"
)

// free is a server's memory without a limit.
type free struct{}

func (free) Reserve(int64) error { return nil }
func (free) Return(int64)        {}
func (free) Expect(int64) error  { return nil }

// A large dynamic message, whose Go type says nothing of its fields, is estimated and decoded.
func TestDynamicMessage(t *testing.T) {
	m := wrapperspb.Bytes(bytes.Repeat([]byte{1}, 100_000))
	b, _ := proto.Marshal(m)
	d := dynamicpb.NewMessage(m.ProtoReflect().Descriptor())
	c := codec.Within(protobuf.Codec(), free{})
	if err := c.Decode(b, d); err != nil {
		t.Fatal(err)
	}
}
