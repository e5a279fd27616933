package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
)

func appendPacked(c tandem.Codec, dst []byte, values []any) ([]byte, error) {
	out := binary.AppendUvarint(dst, uint64(len(values)))
	var err error
	for i, v := range values {
		if out, err = appendSized(c, out, v); err != nil {
			return dst, fmt.Errorf("value %d of %d: %w", i+1, len(values), err)
		}
	}
	return out, nil
}

// appendSized appends the length of v's encoding and the encoding. It leaves
// one byte for the length, enough for most values, and moves the encoding up if
// that was too little.
func appendSized(c tandem.Codec, dst []byte, v any) ([]byte, error) {
	start := len(dst)
	out, err := appendOne(c, append(dst, 0), v)
	if err != nil {
		return dst, err
	}
	var head [binary.MaxVarintLen64]byte
	size := len(out) - start - 1
	n := binary.PutUvarint(head[:], uint64(size)) //nolint:gosec // never negative
	out = append(out, head[1:n]...)
	copy(out[start+n:], out[start+1:start+1+size])
	copy(out[start:], head[:n])
	return out, nil
}

// decodePacked decodes packed values into targets. The empty message, which a nil
// argument encodes to, is taken as no values.
func decodePacked(c tandem.Codec, src []byte, targets []any) error {
	if len(src) == 0 && len(targets) == 0 {
		return nil
	}
	count, n := binary.Uvarint(src)
	if n <= 0 {
		return errors.New("packed values: the message does not begin with their number")
	}
	if count != uint64(len(targets)) {
		return fmt.Errorf("packed values: the message has %d, want %d", count, len(targets))
	}
	rest := src[n:]
	for i, v := range targets {
		part, after, err := cutSized(rest)
		if err == nil {
			err = Decode(c, part, v)
		}
		if err != nil {
			return fmt.Errorf("value %d of %d: %w", i+1, len(targets), err)
		}
		rest = after
	}
	if len(rest) > 0 {
		return fmt.Errorf("packed values: %d bytes left over after the last one", len(rest))
	}
	return nil
}

// packedValues reports whether src can be packed values and nothing else, and how many.
func packedValues(src []byte) (count uint64, packed bool) {
	count, n := binary.Uvarint(src)
	if n <= 0 {
		return 0, false
	}
	rest := src[n:]
	for range count {
		_, after, err := cutSized(rest)
		if err != nil {
			return 0, false
		}
		rest = after
	}
	return count, len(rest) == 0
}

// cutSized splits off a length and the bytes it counts.
func cutSized(src []byte) (part, rest []byte, err error) {
	size, n := binary.Uvarint(src)
	if n <= 0 {
		return nil, nil, errors.New("its length is cut short or longer than 64 bits")
	}
	if size > uint64(len(src)-n) { //nolint:gosec // never negative
		return nil, nil, fmt.Errorf("it claims %d bytes where %d are left", size, len(src)-n)
	}
	end := n + int(size) //nolint:gosec // at most the bytes that are left
	return src[n:end:end], src[end:], nil
}
