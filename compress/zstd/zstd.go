// Package zstd (stable) has the compressor "zstd": Zstandard, RFC 8878, by
// klauspost/compress.
//
// A message is one frame, without a dictionary, with a window of at most 8 MiB.
// See package compress for the other guarantees. Memory differs: for a frame that
// declares its size, that much is allocated at once, but only if it is within the
// limit and the blocks of the frame, which are checked first, can hold as much. A
// frame that does not declare its size is decoded in several attempts; before it is
// refused as too large, these may allocate up to four times the limit, one after the
// other.
package zstd

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compress"
)

const (
	maxWindow    = 8 << 20 // bytes, which RFC 8878 recommends that decoders support
	encodeWindow = 1 << 20 // bytes; a larger one takes more memory for little gain
)

// compressor pools encoders and decoders, each for one call at a time, so that none has a
// goroutine or waits for another.
type compressor struct{ encoders, decoders sync.Pool }

// Compressor returns the compressor. It pools its state, about a megabyte for
// each concurrent Compress, so make one and share it.
func Compressor() tandem.Compressor {
	c := new(compressor)
	c.encoders.New = func() any { return newEncoder() }
	c.decoders.New = func() any { return newDecoder() }
	return c
}

func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(encodeWindow),
		zstd.WithZeroFrames(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

// newDecoder returns a decoder whose limit is the capacity of the slice that it
// appends to: other limits are fixed when a decoder is made.
func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

func (*compressor) Name() string { return "zstd" }

func (c *compressor) Compress(dst, src []byte) ([]byte, error) {
	e := c.encoders.Get().(*zstd.Encoder)
	defer c.encoders.Put(e)
	return e.EncodeAll(src, dst), nil
}

func (c *compressor) Decompress(dst, src []byte, limit int) ([]byte, error) {
	f, err := inspect(src)
	if err != nil {
		return dst, fmt.Errorf("zstd: %w", err)
	}
	d := c.decoders.Get().(*zstd.Decoder)
	defer c.decoders.Put(d)
	out, err := decode(d, f, dst, src, limit)
	if err != nil {
		return dst, fmt.Errorf("zstd: %w", err)
	}
	return out, nil
}

// decode makes room at once for a frame that declares its size. For others it starts
// with an estimate, and starts again with four times the room if that was too little.
// As the decoder does not distinguish this from other errors, it gets room for one
// block more: output that does not fit in the room is then longer than it.
func decode(d *zstd.Decoder, f frame, dst, src []byte, limit int) ([]byte, error) {
	if f.sized && f.size <= limit {
		return decodeWithin(d, dst, src, f.size)
	}
	most := min(f.most, max(limit, 0))
	for room := 4*len(src) + 1024; !f.sized; room *= 4 {
		room = min(room, most)
		out, err := decodeWithin(d, dst, src, min(room+maxBlock, f.most))
		if len(out)-len(dst) <= room {
			return out, err
		}
		if room == most {
			break
		}
	}
	return dst, fmt.Errorf("%w: limit %d bytes", compress.ErrTooLarge, limit)
}

func decodeWithin(d *zstd.Decoder, dst, src []byte, room int) ([]byte, error) {
	buf := dst
	if cap(dst)-len(dst) < room {
		buf = append(make([]byte, 0, len(dst)+room), dst...)
	}
	return d.DecodeAll(src, buf[:len(dst):len(dst)+room])
}
