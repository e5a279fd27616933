package msgpack

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/tandem-rpc/tandem/codec"
)

// extensions says which extension types a message may have.
type extensions bool

const (
	timestamps   extensions = false
	anyExtension extensions = true
)

const (
	timestampType  = -1
	maxNanoseconds = 999_999_999
)

var errShort = errors.New("msgpack: cut short")

// scan walks src, which must be one value, and fails if a length exceeds the bytes
// that are there or if arrays and maps nest too deep. The caller must decode the
// result instead of src; it usually is src itself.
//
// This works around a flaw of the decoder: where it expects a map and finds an
// extension, it skips the extension's header and reads its payload as a map,
// unchecked. So no payload may look like a map. Some 64-bit and 32-bit timestamps
// do; they are rewritten in their 96-bit form, which never does.
func scan(src []byte, ext extensions) ([]byte, error) {
	s := scanner{src: src, ext: ext}
	if err := s.walk(); err != nil {
		return nil, err
	}
	if s.pos < len(src) {
		return nil, fmt.Errorf("msgpack: %d bytes left over", len(src)-s.pos)
	}
	if s.copied == 0 {
		return src, nil
	}
	return append(s.out, src[s.copied:]...), nil
}

type scanner struct {
	src []byte
	pos int
	ext extensions

	out    []byte // src up to copied, with timestamps rewritten
	copied int
}

// walk steps over one value and everything in it.
func (s *scanner) walk() error {
	var open [codec.MaxDepth]int // values still to come, of each array and map that is open
	depth := 0
	for {
		inside, err := s.item()
		if err != nil {
			return err
		}
		if inside > 0 {
			if depth == len(open) {
				return fmt.Errorf("msgpack: nested deeper than %d", len(open))
			}
			open[depth] = inside
			depth++
			continue
		}
		for ; depth > 0; depth-- {
			if open[depth-1]--; open[depth-1] > 0 {
				break
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// item steps over one value, but not over the values inside it: it returns
// their number.
func (s *scanner) item() (inside int, err error) {
	if s.pos == len(s.src) {
		return 0, errShort
	}
	c := s.src[s.pos]
	s.pos++
	switch {
	case msgpcode.IsFixedNum(c):
		return 0, nil
	case msgpcode.IsFixedMap(c):
		return s.elements(uint64(c&msgpcode.FixedMapMask) * 2)
	case msgpcode.IsFixedArray(c):
		return s.elements(uint64(c & msgpcode.FixedArrayMask))
	case msgpcode.IsFixedString(c):
		return 0, s.skip(uint64(c & msgpcode.FixedStrMask))
	case msgpcode.IsExt(c):
		return 0, s.extension(c)
	}
	return s.sized(c)
}

// sized steps over a value whose size follows its code.
func (s *scanner) sized(c byte) (inside int, err error) {
	switch c {
	case msgpcode.Nil, msgpcode.False, msgpcode.True:
		return 0, nil
	case msgpcode.Uint8, msgpcode.Int8:
		return 0, s.skip(1)
	case msgpcode.Uint16, msgpcode.Int16:
		return 0, s.skip(2)
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		return 0, s.skip(4)
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		return 0, s.skip(8)
	case msgpcode.Str8, msgpcode.Bin8:
		return 0, s.skip(s.length(1))
	case msgpcode.Str16, msgpcode.Bin16:
		return 0, s.skip(s.length(2))
	case msgpcode.Str32, msgpcode.Bin32:
		return 0, s.skip(s.length(4))
	case msgpcode.Array16:
		return s.elements(s.length(2))
	case msgpcode.Array32:
		return s.elements(s.length(4))
	case msgpcode.Map16:
		return s.elements(s.length(2) * 2)
	case msgpcode.Map32:
		return s.elements(s.length(4) * 2)
	}
	return 0, fmt.Errorf("msgpack: unknown code %#x", c)
}

// tooLong is a length that no message has.
const tooLong = 1 << 62

// length reads a length of size bytes.
func (s *scanner) length(size int) uint64 {
	if size > len(s.src)-s.pos {
		return tooLong
	}
	var n uint64
	for _, b := range s.src[s.pos : s.pos+size] {
		n = n<<8 | uint64(b)
	}
	s.pos += size
	return n
}

func (s *scanner) skip(n uint64) error {
	if n > uint64(len(s.src)-s.pos) { //nolint:gosec // never negative
		return s.exceeds(n)
	}
	s.pos += int(n) //nolint:gosec // at most the bytes that are left
	return nil
}

// elements checks the number of values that follow, each of at least one byte.
func (s *scanner) elements(n uint64) (int, error) {
	if n > uint64(len(s.src)-s.pos) { //nolint:gosec // never negative
		return 0, s.exceeds(n)
	}
	return int(n), nil //nolint:gosec // at most the bytes that are left
}

func (s *scanner) exceeds(n uint64) error {
	if n >= tooLong {
		return errShort
	}
	return fmt.Errorf("msgpack: %d bytes or more are claimed where %d are left", n, len(s.src)-s.pos)
}

func (s *scanner) extension(c byte) error {
	start := s.pos - 1
	size := s.extensionSize(c)
	if s.pos == len(s.src) {
		return errShort
	}
	kind := int8(s.src[s.pos]) //nolint:gosec // a signed byte, by the format
	s.pos++
	payload := s.src[s.pos:]
	if err := s.skip(size); err != nil || s.ext == anyExtension {
		return err
	}
	if kind != timestampType {
		return fmt.Errorf("msgpack: extension type %d; only timestamps (-1) are accepted", kind)
	}
	return s.timestamp(start, payload[:size])
}

func (s *scanner) extensionSize(c byte) uint64 {
	switch c {
	case msgpcode.FixExt1, msgpcode.FixExt2, msgpcode.FixExt4, msgpcode.FixExt8, msgpcode.FixExt16:
		return 1 << (c - msgpcode.FixExt1)
	case msgpcode.Ext8:
		return s.length(1)
	case msgpcode.Ext16:
		return s.length(2)
	}
	return s.length(4)
}

// timestamp checks the timestamp that begins at start, and rewrites it if its
// payload looks like a map.
func (s *scanner) timestamp(start int, payload []byte) error {
	sec, nsec, err := parseTimestamp(payload)
	if err != nil {
		return err
	}
	if !looksLikeMap(payload[0]) {
		return nil
	}
	s.out = append(s.out, s.src[s.copied:start]...)
	s.copied = s.pos
	kind := int8(timestampType)
	s.out = append(s.out, msgpcode.Ext8, 12, byte(kind)) //nolint:gosec // a signed byte, by the format
	s.out = binary.BigEndian.AppendUint32(s.out, nsec)
	s.out = binary.BigEndian.AppendUint64(s.out, sec)
	return nil
}

// parseTimestamp reads the three forms of a timestamp
// (https://github.com/msgpack/msgpack/blob/master/spec.md#timestamp-extension-type).
func parseTimestamp(p []byte) (sec uint64, nsec uint32, err error) {
	switch len(p) {
	case 4:
		sec = uint64(binary.BigEndian.Uint32(p))
	case 8:
		x := binary.BigEndian.Uint64(p)
		sec, nsec = x&(1<<34-1), uint32(x>>34)
	case 12:
		nsec, sec = binary.BigEndian.Uint32(p), binary.BigEndian.Uint64(p[4:])
	default:
		return 0, 0, fmt.Errorf("msgpack: a timestamp of %d bytes", len(p))
	}
	if nsec > maxNanoseconds {
		return 0, 0, fmt.Errorf("msgpack: a timestamp with %d nanoseconds", nsec)
	}
	return sec, nsec, nil
}

// looksLikeMap reports whether the decoder takes c as the beginning of a map:
// nil is an empty one.
func looksLikeMap(c byte) bool {
	return msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32 || c == msgpcode.Nil
}
