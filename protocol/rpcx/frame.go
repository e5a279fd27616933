package rpcx

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// frame is one message in either direction; all numbers are big-endian:
//
//	0   magic
//	1   version
//	2   kind: response 0x80, heartbeat 0x40, one-way 0x20, compression 0x1c, status 0x03
//	3   format of the payload, in the upper half
//	4   sequence number, 8 bytes
//	12  bytes that follow, 4 bytes
//	16  service, method, metadata, payload, each behind its length of 4 bytes
//
// Metadata is keys and values in turn, each after its length.
type frame struct {
	version byte
	kind    byte
	format  byte
	seq     uint64
	service string
	method  string
	block   []byte // encoded metadata
	payload []byte
}

const (
	magic      = 0x08
	headLen    = 16
	lengthsLen = 16 // bytes of the lengths of a frame's four parts
)

// Bits of a frame's kind.
const (
	response     = 0x80
	heartbeat    = 0x40
	oneWay       = 0x20
	compression  = 0x1c
	gzipped      = 0x04
	statusBits   = 0x03
	failedStatus = 0x01
)

// Formats of a payload.
const (
	formatRaw = iota
	formatJSON
	formatProtobuf
	formatMsgpack
	formatThrift
)

// Keys of metadata with a meaning in rpcx.
const (
	keyError   = "__rpcx_error__"
	keyAuth    = "__AUTH"
	keyToken   = "authorization"   // the key of keyAuth in tandem's metadata
	keyTimeout = "__ServerTimeout" // the timeout that is left, in milliseconds
	reserved   = "__"              // prefix of rpcx's own keys
)

// Limits for what a peer may send.
const (
	maxName     = 1 << 10  // bytes of a service's name, and of a method's
	maxMetadata = 16 << 10 // bytes
	maxPairs    = 128
	piece       = 64 << 10 // bytes read at a time: memory grows with what has arrived
)

var errNotRPCX = errors.New("not rpcx")

// limitError is the error of a frame that exceeds one of our limits. The frames after it
// can still be read.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

func tooLong(what string, n, limit int) error {
	return &limitError{fmt.Sprintf("%s of %d bytes, limit %d", what, n, limit)}
}

// readHead reads a frame up to its payload. left is the size of the payload by the frame's
// length, which rpcx uses, not by the payload's own. It is valid with a *limitError too;
// after any other error no more can be read.
func (f *frame) readHead(r *bufio.Reader) (left int, err error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	if head[0] != magic {
		return 0, fmt.Errorf("%w: a frame begins with %#x", errNotRPCX, head[0])
	}
	total := binary.BigEndian.Uint32(head[12:])
	if total < lengthsLen {
		return 0, fmt.Errorf("%w: a frame of %d bytes", errNotRPCX, total)
	}
	*f = frame{version: head[1], kind: head[2], format: head[3] >> 4, seq: binary.BigEndian.Uint64(head[4:])}
	p := parts{r: r, left: int(total), after: lengthsLen}
	f.service = string(p.next("a service's name", maxName))
	f.method = string(p.next("a method's name", maxName))
	f.block = p.next("metadata", maxMetadata)
	if p.fatal != nil {
		return 0, unexpected(p.fatal)
	}
	if p.refused != nil {
		return p.left, p.refused
	}
	if _, err := r.Discard(4); err != nil {
		return 0, unexpected(err)
	}
	return p.left - 4, nil
}

// parts reads the parts of a frame.
type parts struct {
	r       *bufio.Reader
	left    int // bytes of the frame that have not been read
	after   int // bytes of left that the lengths of further parts take
	refused error
	fatal   error
}

// next reads a part of at most limit bytes; nil after an error.
func (p *parts) next(what string, limit int) []byte {
	if p.refused != nil || p.fatal != nil {
		return nil
	}
	b, err := p.r.Peek(4)
	if err != nil {
		p.fatal = err
		return nil
	}
	n := int64(binary.BigEndian.Uint32(b))
	p.after -= 4
	switch {
	case n > int64(p.left-4-p.after):
		p.fatal = fmt.Errorf("%w: %s of %d bytes in a frame that has %d left", errNotRPCX, what, n, p.left-4-p.after)
		return nil
	case n > int64(limit):
		p.refused = tooLong(what, int(n), limit)
		return nil
	}
	if _, err := p.r.Discard(4); err != nil {
		p.fatal = err
		return nil
	}
	p.left -= 4 + int(n)
	if n == 0 {
		return nil
	}
	b = make([]byte, n)
	if _, err := io.ReadFull(p.r, b); err != nil {
		p.fatal = err
	}
	return b
}

// readPayload reads the n bytes of the payload.
func readPayload(r *bufio.Reader, n int) ([]byte, error) {
	var b []byte
	for n > 0 {
		k := min(n, piece)
		if cap(b)-len(b) < k {
			b = append(b, make([]byte, k)...)[:len(b)]
		}
		got, err := io.ReadFull(r, b[len(b):len(b)+k])
		b = b[:len(b)+got]
		if err != nil {
			return b, unexpected(err)
		}
		n -= got
	}
	return b, nil
}

// unexpected converts an EOF in the middle of a frame.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// append appends the frame to dst.
func (f *frame) append(dst []byte) ([]byte, error) {
	total := lengthsLen + len(f.service) + len(f.method) + len(f.block) + len(f.payload)
	if int64(total) > 1<<32-1 {
		return dst, fmt.Errorf("a frame of %d bytes", total)
	}
	dst = append(dst, magic, f.version, f.kind, f.format<<4)
	dst = binary.BigEndian.AppendUint64(dst, f.seq)
	dst = binary.BigEndian.AppendUint32(dst, uint32(total))
	dst = appendPart(dst, f.service)
	dst = appendPart(dst, f.method)
	dst = appendPart(dst, f.block)
	return appendPart(dst, f.payload), nil
}

func appendPart[T string | []byte](dst []byte, part T) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(part))) //nolint:gosec // a part of a frame whose length was checked
	return append(dst, part...)
}

// pairs calls f with each key and value of a block of metadata.
func pairs(block []byte, f func(key, value string)) error {
	for n := 0; len(block) > 0; n++ {
		if n == maxPairs {
			return fmt.Errorf("metadata of more than %d pairs", maxPairs)
		}
		key, rest, ok := cutPart(block)
		value, rest, ok2 := cutPart(rest)
		if !ok || !ok2 {
			return errors.New("metadata is cut short")
		}
		f(string(key), string(value))
		block = rest
	}
	return nil
}

func cutPart(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// appendPair appends a key and its value to a block.
func appendPair(block []byte, key, value string) []byte {
	return appendPart(appendPart(block, key), value)
}

// appendMetadata appends tandem's metadata to a block. rpcx has one value for a key:
// several are joined with ", ", as in HTTP. rpcx's own keys are left out.
func appendMetadata(block []byte, md tandem.Metadata) []byte {
	for key, values := range md {
		if !strings.HasPrefix(key, reserved) {
			block = appendPair(block, key, strings.Join(values, ", "))
		}
	}
	return block
}
