// Package snappy (stable) has the compressor "snappy": the block format of Snappy
// (https://github.com/google/snappy/blob/main/format_description.txt), by
// klauspost/compress.
//
// A block declares its size. It is refused before memory is taken if that is over
// the limit, or more than the bytes of the block could expand to. See package
// compress for the other guarantees.
package snappy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/snappy"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compress"
)

// maxRatio is how much a block can expand, rounded up: its shortest element makes
// 64 bytes of 3.
const maxRatio = 22

type compressor struct{}

// Compressor returns the compressor.
func Compressor() tandem.Compressor { return compressor{} }

func (compressor) Name() string { return "snappy" }

func (compressor) Compress(dst, src []byte) ([]byte, error) {
	room := snappy.MaxEncodedLen(len(src))
	if room < 0 {
		return dst, fmt.Errorf("snappy: a block of %d bytes; it holds less than 4 GiB", len(src))
	}
	out := slices.Grow(dst, room)
	block := snappy.Encode(out[len(dst):len(dst)+room], src)
	return out[:len(dst)+len(block)], nil
}

func (compressor) Decompress(dst, src []byte, limit int) ([]byte, error) {
	size, err := snappy.DecodedLen(src)
	switch {
	case errors.Is(err, snappy.ErrTooLarge): // for an int of 32 bits
		return dst, fmt.Errorf("snappy: %w: limit %d bytes", compress.ErrTooLarge, limit)
	case err != nil:
		return dst, fmt.Errorf("snappy: the block's size: %w", err)
	case size > limit:
		return dst, fmt.Errorf("snappy: %w: %d bytes, limit %d", compress.ErrTooLarge, size, limit)
	case size > maxRatio*len(src):
		return dst, errors.New("snappy: the block declares more than its bytes can hold")
	}
	out := slices.Grow(dst, size)
	if _, err := snappy.Decode(out[len(dst):len(dst)+size], src); err != nil {
		return dst, fmt.Errorf("snappy: %w", err)
	}
	return out[:len(dst)+size], nil
}
