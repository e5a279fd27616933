package floor

import (
	"encoding/binary"
	"fmt"
	"io"
)

// frames divides a byte stream into frames. It is not safe for concurrent use.
type frames struct {
	src        io.Reader
	buf        []byte
	start, end int // buf[start:end] has been read and not returned
}

func newFrames(src io.Reader) *frames {
	return &frames{src: src, buf: make([]byte, readSize)}
}

// fill reads once, after the unreturned bytes of the last read. Frames that next returned
// are invalid after it.
func (f *frames) fill() error {
	f.end = copy(f.buf, f.buf[f.start:f.end])
	f.start = 0
	n, err := f.src.Read(f.buf[f.end:])
	f.end += n
	if n > 0 {
		return nil
	}
	return err
}

// next returns the content of the next frame after its length, or nil if that frame has not
// been read completely.
func (f *frames) next() ([]byte, error) {
	have := f.buf[f.start:f.end]
	if len(have) < lengthSize {
		return nil, nil
	}
	n := binary.LittleEndian.Uint32(have)
	if n < tagSize || n > readSize-lengthSize {
		return nil, fmt.Errorf("floor: a frame of %d bytes, allowed are %d to %d", n, tagSize, readSize-lengthSize)
	}
	whole := lengthSize + int(n)
	if len(have) < whole {
		return nil, nil
	}
	f.start += whole
	return have[lengthSize:whole:whole], nil
}
