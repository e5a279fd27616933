// Package wire (stable) is tandem's own protocol as bytes: every element has an Append
// function that writes it and a Parse function that reads it. There is no I/O,
// no clock and no state here. docs/reference/protocol.md describes the protocol in prose.
//
// Parse functions check every length against its limit first and never allocate
// memory because of a declared length. Their results refer to the input only where
// their documentation says so.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the protocol version that this package speaks.
const Version = 1

// Sizes and defaults of the protocol, in bytes or counts.
const (
	HeaderLen = 12      // bytes of a frame header
	MaxBlock  = 1 << 16 // largest payload of a frame

	DefaultMaxMessage   = 4 << 20   // largest message, before and after decompression
	DefaultMaxOpen      = 4096      // open calls for each connection and direction
	MaxOpenLimit        = 1 << 16   // upper bound of MaxOpen, as an index has 16 bits
	DefaultStreamWindow = 256 << 10 // credit of a new stream
	DefaultConnWindow   = 4 << 20   // credit of all streams of a connection together
	MinWindow           = 16 << 10  // smallest initial credit; with less, a sender of 4 KiB blocks could wait for ever
	MaxWindow           = 1 << 30   // largest credit that a side may have

	MaxMetadata      = 16 << 10  // bytes of encoded metadata
	MaxMetadataPairs = 128       // pairs of metadata
	MaxName          = 1 << 10   // bytes of a method name
	MaxNames         = 4096      // method names with a number, for each connection and direction
	MaxNameBytes     = 256 << 10 // bytes of those names together
	MaxStatus        = 16 << 10  // bytes of an encoded status
	MaxDetails       = 32        // details of a status
)

// ErrViolation is in the chain of every error that a Parse function returns:
// the peer violated the protocol, and the connection must be closed.
var ErrViolation = errors.New("protocol violation")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrViolation, fmt.Sprintf(format, args...))
}

// uvarint reads a number and returns the rest.
func uvarint(b []byte, what string) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, violation("%s: truncated or oversized number", what)
	}
	return v, b[n:], nil
}

// lengthPrefixed reads a length of at most limit and that many bytes.
func lengthPrefixed(b []byte, limit int, what string) (value, rest []byte, err error) {
	n, b, err := uvarint(b, what)
	switch {
	case err != nil:
		return nil, nil, err
	case n > uint64(limit): //nolint:gosec // limits are constants
		return nil, nil, violation("%s of %d bytes, limit %d", what, n, limit)
	case n > uint64(len(b)):
		return nil, nil, violation("%s of %d bytes is cut off after %d", what, n, len(b))
	}
	return b[:n:n], b[n:], nil
}

func appendPrefixed[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
