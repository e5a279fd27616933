package thrift

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	apache "github.com/apache/thrift/lib/go/thrift"
)

// format is the encoding of a message.
type format uint8

const (
	formatBinary  format = 0 // the numbers are those in a THeader
	formatCompact format = 2
)

// String returns the name for [tandem.Call].Codec.
func (f format) String() string {
	if f == formatCompact {
		return "thrift-compact"
	}
	return "thrift-binary"
}

// Limits for what a client may send.
const (
	maxFrame   = 128 << 20 // bytes, exclusive; see Match
	minMessage = 5         // bytes of the shortest message
	maxName    = 1 << 10   // bytes of a method's name, with its service
	maxHead    = maxName + 16
	maxNesting = 64       // depth of structs and containers
	piece      = 64 << 10 // bytes read at a time: memory grows with what has arrived
	frameLen   = 4        // bytes of a frame's length
)

// The first bytes of messages.
const (
	binaryID           = 0x80
	binaryVersion      = 0x01
	compactID          = 0x82
	compactVersion     = 1
	compactVersionMask = 0x1f
	compactKindShift   = 5
	headerMagic        = 0x0fff
)

var errNotThrift = errors.New("not Thrift")

// head is the beginning of a message:
//
//	binary   80 01 00 kind, the name behind its length in 4 bytes, 4 bytes of number
//	compact  82, kind<<5|1, the number, the name behind its length, both varints
type head struct {
	format format
	kind   apache.TMessageType
	name   string
	seq    int32 // the number of the call, repeated in its response
}

// parseHead parses the head of a message and returns its length. The error is
// io.ErrUnexpectedEOF if b is too short.
func parseHead(b []byte) (h head, n int, err error) {
	switch {
	case len(b) == 0:
		return h, 0, io.ErrUnexpectedEOF
	case b[0] == binaryID:
		h, n, err = parseBinary(b)
	case b[0] == compactID:
		h, n, err = parseCompact(b)
	default:
		return h, 0, fmt.Errorf("%w: a message begins with %#x", errNotThrift, b[0])
	}
	if err == nil && h.kind != apache.CALL && h.kind != apache.ONEWAY {
		err = fmt.Errorf("%w: a client sent a message of kind %d", errNotThrift, h.kind)
	}
	return h, n, err
}

func parseBinary(b []byte) (h head, n int, err error) {
	const nameAt = 8
	if len(b) < nameAt {
		return h, 0, io.ErrUnexpectedEOF
	}
	length := binary.BigEndian.Uint32(b[4:])
	switch {
	case b[1] != binaryVersion || b[2] != 0:
		return h, 0, fmt.Errorf("%w: version %#x of the binary protocol", errNotThrift, b[1:3])
	case length > maxName:
		return h, 0, longName(uint64(length))
	}
	n = nameAt + int(length) + 4
	if len(b) < n {
		return h, 0, io.ErrUnexpectedEOF
	}
	h.format, h.kind, h.name = formatBinary, apache.TMessageType(b[3]), string(b[nameAt:n-4])
	h.seq = int32(binary.BigEndian.Uint32(b[n-4:])) //nolint:gosec // any 32 bits
	return h, n, nil
}

func parseCompact(b []byte) (h head, n int, err error) {
	const seqAt = 2
	if len(b) < seqAt {
		return h, 0, io.ErrUnexpectedEOF
	}
	if b[1]&compactVersionMask != compactVersion {
		return h, 0, fmt.Errorf("%w: version %d of the compact protocol", errNotThrift, b[1]&compactVersionMask)
	}
	seq, k, err := parseVarint(b[seqAt:])
	if err != nil {
		return h, 0, err
	}
	n = seqAt + k
	length, k, err := parseVarint(b[n:])
	n += k
	switch {
	case err != nil:
		return h, 0, err
	case length > maxName:
		return h, 0, longName(length)
	case len(b)-n < int(length):
		return h, 0, io.ErrUnexpectedEOF
	}
	h.format, h.kind = formatCompact, apache.TMessageType(b[1]>>compactKindShift)
	h.seq = int32(uint32(seq)) //nolint:gosec // the lower 32 bits, as Apache's library reads it
	h.name = string(b[n : n+int(length)])
	return h, n + int(length), nil
}

func longName(n uint64) error {
	return fmt.Errorf("%w: a method's name of %d bytes, limit %d", errNotThrift, n, maxName)
}

// parseVarint parses a number of seven bits a byte, the least significant first.
func parseVarint(b []byte) (x uint64, n int, err error) {
	switch x, n = binary.Uvarint(b); {
	case n > 0:
		return x, n, nil
	case n == 0:
		return 0, 0, io.ErrUnexpectedEOF
	}
	return 0, 0, fmt.Errorf("%w: a number of more than 64 bits", errNotThrift)
}
