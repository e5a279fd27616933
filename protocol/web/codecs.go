package web

import (
	"errors"
	"reflect"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/internal/estimate"
	"github.com/tandem-rpc/tandem/internal/estimate/protofields"
)

// message is an encoded message: connect frames and compresses it.
type message struct {
	b      []byte
	framed []byte // b after five bytes for its length; nil if there is no room for those
}

// passing is a connect codec that leaves encoding to the call's Body. connect encodes only
// the status of gRPC calls itself.
type passing struct{ name string }

func (c passing) Name() string { return c.name }

func (c passing) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

func (c passing) MarshalAppend(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case *message:
		return append(dst, v.b...), nil
	case proto.Message:
		return proto.MarshalOptions{}.MarshalAppend(dst, v)
	}
	return dst, errors.New("not a message that is encoded")
}

// Unmarshal copies, since connect reuses the bytes.
func (c passing) Unmarshal(src []byte, v any) error {
	switch v := v.(type) {
	case *message:
		v.b = append([]byte(nil), src...)
		return nil
	case proto.Message:
		return proto.Unmarshal(src, v)
	}
	return errors.New("not a message that stays encoded")
}

// codecs are the codecs of messages, by connect's names for them.
type codecs map[string]tandem.Codec

func newCodecs() codecs {
	return codecs{"proto": protobuf.Codec(), "json": jsonCodec{codec.JSON(), estimate.ProtoTypes(protofields.Of)}}
}

// jsonCodec is JSON; messages of Protocol Buffers use their own JSON mapping.
type jsonCodec struct {
	plain tandem.Codec
	types *estimate.Types // sizes of the types of Protocol Buffers messages
}

func (jsonCodec) Name() string { return "json" }

func (c jsonCodec) Append(dst []byte, v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok {
		return protojson.MarshalOptions{}.MarshalAppend(dst, m)
	}
	return c.plain.Append(dst, v)
}

// DecodeWithin reserves the memory of the value before it decodes it.
func (c jsonCodec) DecodeWithin(src []byte, v any, memory codec.Memory) error {
	if _, ok := v.(proto.Message); !ok {
		return codec.DecodeWithin(c.plain, src, v, memory)
	}
	if err := memory.Expect(estimate.JSON(src, c.types.Of(reflect.TypeOf(v)))); err != nil {
		return err
	}
	return c.Decode(src, v)
}

// Decode ignores fields of Protocol Buffers that the message does not have: the client may
// use a newer definition.
func (c jsonCodec) Decode(src []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		return protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: codec.MaxDepth}.Unmarshal(src, m)
	}
	return c.plain.Decode(src, v)
}
