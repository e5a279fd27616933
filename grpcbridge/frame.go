package grpcbridge

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/grpc/metadata"
)

// frame is an encoded message. Its methods are those of generated code, so the codec of package
// codec/protobuf carries it.
type frame struct{ b []byte }

// ProtoMessage marks the type for the codec.
func (*frame) ProtoMessage() {}

// Marshal returns the encoded message.
func (f *frame) Marshal() ([]byte, error) { return f.b, nil }

// Unmarshal keeps a copy of the encoded message.
func (f *frame) Unmarshal(b []byte) error {
	f.b = append([]byte(nil), b...)
	return nil
}

// A header of a stream over tandem's protocol is its first message. It begins with a byte with
// which no message of Protocol Buffers begins: there is no field 0.
const headerMark = 0

// encodeHeader returns a header as such a message: pairs of lengths and bytes.
func encodeHeader(md metadata.MD) []byte {
	b := []byte{headerMark}
	for key, values := range md {
		for _, v := range values {
			b = binary.AppendUvarint(b, uint64(len(key)))
			b = append(b, key...)
			b = binary.AppendUvarint(b, uint64(len(v)))
			b = append(b, v...)
		}
	}
	return b
}

// isHeader reports whether a message is a header.
func isHeader(b []byte) bool { return len(b) > 0 && b[0] == headerMark }

var errHeader = errors.New("the header of the stream can't be read")

// parseHeader reads what encodeHeader has written.
func parseHeader(b []byte) (metadata.MD, error) {
	md := metadata.MD{}
	b = b[1:]
	for len(b) > 0 {
		var key, value string
		var err error
		if key, b, err = cut(b); err != nil {
			return nil, err
		}
		if value, b, err = cut(b); err != nil {
			return nil, err
		}
		md[key] = append(md[key], value)
	}
	return md, nil
}

func cut(b []byte) (s string, rest []byte, err error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) { //nolint:gosec // never negative
		return "", nil, errHeader
	}
	end := used + int(n) //nolint:gosec // checked above
	return string(b[used:end]), b[end:], nil
}

// incoming decodes a response into a message that the caller has given, unless it is larger than
// the call's limit, or is a stream's header.
type incoming struct {
	into any
	most *int // bytes; nil for no limit

	first    bool // it may be a header
	isHeader bool
	header   metadata.MD
	tooLarge error
	unfit    error // into does not take the message
}

// ProtoMessage marks the type for the codec.
func (*incoming) ProtoMessage() {}

// Marshal is never used; the codec wants it.
func (*incoming) Marshal() ([]byte, error) { return nil, errors.New("a message that is received only") }

// Unmarshal decodes the message.
func (m *incoming) Unmarshal(b []byte) error {
	if m.isHeader = m.first && isHeader(b); m.isHeader {
		m.header, m.unfit = parseHeader(b)
		return m.unfit
	}
	if most := m.most; most != nil && len(b) > *most {
		m.tooLarge = fmt.Errorf("the response has %d bytes, and grpc.MaxCallRecvMsgSize allows %d", len(b), *most)
		return m.tooLarge
	}
	m.unfit = messages.Decode(b, m.into)
	return m.unfit
}
