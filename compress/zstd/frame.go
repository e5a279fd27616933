package zstd

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// frame is what is known about a frame without decoding it.
type frame struct {
	sized bool // the frame declares its size
	size  int  // bytes of content, if sized
	most  int  // bytes that its blocks can hold
}

// Sizes in bytes, and the types of blocks (RFC 8878, section 3.1.1.2).
const (
	blockHeader = 3
	checksum    = 4
	maxBlock    = 128 << 10 // bytes of a block's content

	blockRaw    = 0
	blockRLE    = 1 // one byte, repeated
	blockPacked = 2
)

// inspect walks the blocks of src, which must be one frame, and fails if the frame
// declares more bytes than they can hold.
func inspect(src []byte) (frame, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return frame{}, err
	}
	if h.Skippable || h.DictionaryID != 0 {
		return frame{}, errors.New("a skippable frame, or one with a dictionary; neither is accepted")
	}
	most, rest, err := blocks(src[h.HeaderSize:])
	if err != nil {
		return frame{}, err
	}
	if h.HasCheckSum {
		if len(rest) < checksum {
			return frame{}, io.ErrUnexpectedEOF
		}
		rest = rest[checksum:]
	}
	if len(rest) > 0 {
		return frame{}, fmt.Errorf("%d bytes left over after the frame", len(rest))
	}
	if h.HasFCS && h.FrameContentSize > uint64(most) { //nolint:gosec // never negative
		return frame{}, fmt.Errorf("the frame declares %d bytes, but its blocks hold %d at most", h.FrameContentSize, most)
	}
	return frame{sized: h.HasFCS, size: int(h.FrameContentSize), most: most}, nil //nolint:gosec // at most the limit, checked above
}

// blocks walks blocks up to the last one. It returns how many bytes they can hold,
// and the bytes after them.
func blocks(src []byte) (most int, rest []byte, err error) {
	for last := false; !last; {
		if len(src) < blockHeader {
			return 0, nil, io.ErrUnexpectedEOF
		}
		h := int(src[0]) | int(src[1])<<8 | int(src[2])<<16
		src = src[blockHeader:]
		last = h&1 != 0
		stored, content := h>>3, h>>3
		switch h >> 1 & 3 {
		case blockRaw:
		case blockRLE:
			stored = 1
		case blockPacked:
			content = maxBlock
		default:
			return 0, nil, errors.New("a block of the reserved type")
		}
		if stored > len(src) || content > maxBlock {
			return 0, nil, errors.New("a block larger than the frame, or than a block may be")
		}
		src = src[stored:]
		most += content
	}
	return most, src, nil
}
