package floor

import (
	"encoding/binary"
	"fmt"
	"io"
)

// frames cuts a byte stream into frames. One goroutine uses it.
type frames struct {
	src        io.Reader
	buf        []byte
	start, end int // buf[start:end] has been read and not been returned
}

func newFrames(src io.Reader) *frames {
	return &frames{src: src, buf: make([]byte, readSize)}
}

// fill reads once, behind what is left of the last read. Frames that next
// returned are invalid from here on.
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

// next returns what follows the length in the next frame, or nil when that
// frame has not been read completely.
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
