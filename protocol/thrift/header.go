package thrift

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// header is a THeader: it begins a frame, before the message. Numbers are big-endian:
//
//	0   magic, 2 bytes
//	2   flags, 2 bytes
//	4   number of the request, 4 bytes
//	8   length of the rest, in units of 4 bytes, 2 bytes
//	10  protocol, count of transforms, transforms; then infos: a kind, and its
//	    content; then zeros up to the length
//
// Numbers from 10 on are varints. The one kind of info is pairs of strings: their count,
// then keys and values in turn, each after its length. See Apache Thrift,
// doc/specs/HeaderFormat.md.
type header struct {
	flags    uint16
	seq      uint32
	format   format
	zlib     bool // the message is compressed
	metadata tandem.Metadata
}

const (
	headerLen     = 10
	headerUnit    = 4
	transformNone = 0
	transformZlib = 1
	infoPairs     = 1
)

// Limits for what a client may send.
const (
	maxTransforms = 8
	maxPairs      = 128
	maxMetadata   = 16 << 10 // bytes
)

// headerSize returns the size of a header, given its first headerLen bytes.
func headerSize(b []byte) int {
	return headerLen + headerUnit*int(binary.BigEndian.Uint16(b[8:]))
}

// parseHeader parses a whole header. If metadata exceeds its limit the error is a *refusal:
// the message can still be read.
func parseHeader(b []byte) (*header, error) {
	h := &header{flags: binary.BigEndian.Uint16(b[2:]), seq: binary.BigEndian.Uint32(b[4:])}
	p := varints{b: b[headerLen:]}
	h.format = format(p.next(uint64(formatCompact))) //nolint:gosec // at most that
	for range p.next(maxTransforms) {
		switch id := p.next(1 << 32); {
		case id == transformZlib && !h.zlib:
			h.zlib = true
		case id != transformNone && p.err == nil:
			p.err = fmt.Errorf("%w: transform %d is not served here: use zlib, once, or none", errNotThrift, id)
		}
	}
	if p.err == nil && h.format != formatBinary && h.format != formatCompact {
		p.err = fmt.Errorf("%w: protocol %d is not served here: use binary or compact", errNotThrift, h.format)
	}
	if p.err == nil && len(b) > headerLen+maxMetadata {
		return h, &refusal{text: fmt.Sprintf("metadata of %d bytes, limit %d", len(b), maxMetadata)}
	}
	h.metadata = tandem.Metadata{}
	for pairs := 0; p.err == nil && len(p.b) > 0 && p.next(1<<32) == infoPairs; {
		pairs = h.takePairs(&p, pairs)
	}
	return h, p.err
}

// takePairs reads pairs of metadata, when there are already some, and returns how many
// there are then.
func (h *header) takePairs(p *varints, pairs int) int {
	for range p.next(uint64(len(p.b))) {
		key, value := p.text(), p.text()
		if p.err == nil && pairs == maxPairs {
			p.err = &refusal{text: fmt.Sprintf("metadata of more than %d pairs", maxPairs)}
		}
		if p.err != nil {
			return pairs
		}
		h.metadata.Add(key, value)
		pairs++
	}
	return pairs
}

// append appends the header of a response. THeader has one value for a key: several values
// are joined with ", ", as in HTTP.
func (h *header) append(dst []byte, zlib bool, md tandem.Metadata) ([]byte, error) {
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, headerMagic)
	dst = binary.BigEndian.AppendUint16(dst, h.flags)
	dst = binary.BigEndian.AppendUint32(dst, h.seq)
	dst = append(dst, 0, 0, byte(h.format))
	if zlib {
		dst = append(dst, 1, transformZlib)
	} else {
		dst = append(dst, 0)
	}
	if len(md) > 0 {
		dst = binary.AppendUvarint(append(dst, infoPairs), uint64(len(md)))
		for key, values := range md {
			dst = appendText(appendText(dst, key), strings.Join(values, ", "))
		}
	}
	for (len(dst)-start-headerLen)%headerUnit != 0 {
		dst = append(dst, 0)
	}
	size := (len(dst) - start - headerLen) / headerUnit
	if size >= 1<<16 {
		return dst, errors.New("metadata of more than 256 KiB")
	}
	binary.BigEndian.PutUint16(dst[start+8:], uint16(size)) //nolint:gosec // checked
	return dst, nil
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// varints reads numbers and strings until the first error.
type varints struct {
	b   []byte
	err error
}

// next reads a number of at most limit; 0 after an error.
func (p *varints) next(limit uint64) uint64 {
	if p.err != nil {
		return 0
	}
	x, n, err := parseVarint(p.b)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.err = fmt.Errorf("%w: a header is cut short", errNotThrift)
	case err != nil:
		p.err = err
	case x > limit:
		p.err = fmt.Errorf("%w: %d in a header where %d is the most", errNotThrift, x, limit)
	default:
		p.b = p.b[n:]
		return x
	}
	return 0
}

func (p *varints) text() string {
	n := p.next(uint64(len(p.b)))
	if p.err == nil && n > uint64(len(p.b)) {
		p.err = fmt.Errorf("%w: a header is cut short", errNotThrift)
	}
	if p.err != nil {
		return ""
	}
	s := string(p.b[:n])
	p.b = p.b[n:]
	return s
}
