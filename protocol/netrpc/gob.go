package netrpc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tandem-rpc/tandem/server"
)

// A gob stream is a sequence of messages: a length, then a type's id, negative for the
// description of the type and positive for a value of it. The grammar is at the end of
// encoding/gob's doc.go. Each type is described once in a stream. A value with all
// descriptions so far before it is a complete gob: it can be decoded, or discarded, at any
// time and in any order.

// firstDefined is the smallest id of a type that is not built into gob.
const firstDefined = 64

// Limits for what a client may send.
const (
	maxTypes = 64 << 10 // bytes of type descriptions; the same limit as in package codec
	maxGob   = 1 << 30  // bytes of a message, as in encoding/gob
	piece    = 64 << 10 // bytes read at a time: memory grows with what has arrived
)

// Formatting these errors for each use would be slow: [server.New] asks matchGob about thousands of
// first bytes, to compare the protocols.
var (
	errNotGob   = errors.New("not a gob")
	errNoLength = fmt.Errorf("%w: a message of no bytes, or of 1 GiB or more", errNotGob)
	errNoType   = fmt.Errorf("%w: no type", errNotGob)
	errTypeSize = fmt.Errorf("%w: a type whose number has more than 32 bits", errNotGob)
	errNoNumber = fmt.Errorf("%w: a number of more than 8 bytes", errNotGob)
	errNoTypes  = fmt.Errorf("descriptions of types of more than %d bytes", maxTypes)
)

// message is the head of one gob message.
type message struct {
	id    int // id of the type; negative for its description
	start int // offset of the id, after the length
	end   int // offset of the message's end
}

// parseMessage parses the head of a message; b must begin with its length and the id. The
// error is io.ErrUnexpectedEOF if b is too short.
func parseMessage(b []byte) (message, error) {
	size, n, err := parseUint(b)
	if err != nil {
		return message{}, err
	}
	if size == 0 || size >= maxGob {
		return message{}, errNoLength
	}
	id, k, err := parseUint(b[n:])
	if err != nil {
		return message{}, err
	}
	switch {
	case k > int(size) || id < 2:
		return message{}, errNoType
	case id > 1<<32:
		return message{}, errTypeSize
	}
	m := message{id: int(id >> 1), start: n, end: n + int(size)}
	if id&1 != 0 {
		m.id = ^m.id
	}
	return m, nil
}

// maxMessageHead is how many bytes [parseMessage] needs at most.
const maxMessageHead = 18

// parseUint parses gob's unsigned integer and returns its size: one byte below 128, else
// the negated number of the bytes that follow, big-endian.
func parseUint(b []byte) (x uint64, n int, err error) {
	if len(b) == 0 {
		return 0, 0, io.ErrUnexpectedEOF
	}
	if b[0] < 0x80 {
		return uint64(b[0]), 1, nil
	}
	n = 1 - int(int8(b[0])) //nolint:gosec // a negated count, by the format
	if n > 9 {
		return 0, 0, errNoNumber
	}
	if n > len(b) {
		return 0, 0, io.ErrUnexpectedEOF
	}
	for _, digit := range b[1:n] {
		x = x<<8 | uint64(digit)
	}
	return x, n, nil
}

// matchGob accepts a stream that begins with the description of a struct named Request,
// which is the first message of net/rpc's clients.
func matchGob(first []byte) server.Verdict {
	// The fields wireType.StructT, CommonType and Name, each as a delta, and the name after
	// its length.
	const description = "\x03\x01\x01\x07Request"
	m, err := parseMessage(first)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return server.NeedMore
	case err != nil || m.id > -firstDefined:
		return server.No
	}
	_, k, _ := parseUint(first[m.start:])
	return prefix(first[m.start+k:], description)
}

// gobReader reads the values of a gob stream.
type gobReader struct {
	r     *bufio.Reader
	types []byte // all descriptions so far; only appended to, since values share its memory

	// reserve reserves memory for a value before it is read; nil for no limit.
	reserve func(n int64) error
}

// sizeError is the error for a value that was discarded because of its size.
type sizeError struct{ size int }

func (e *sizeError) Error() string { return fmt.Sprintf("a value of %d bytes", e.size) }

// skipped is the error for a value that was discarded: it wraps a *sizeError, or the error
// that there was no memory for it.
type skipped struct{ error }

func (e *skipped) Unwrap() error { return e.error }

// value reads the next value, of at most limit bytes, and appends it to dst as a complete
// gob. A value that is longer, or for which there is no memory, is discarded, and the error
// is a *skipped.
func (g *gobReader) value(dst []byte, limit int) ([]byte, error) {
	for {
		m, err := g.next()
		if err != nil {
			return nil, err
		}
		switch {
		case m.id < 0 && len(g.types)+m.end > maxTypes:
			return nil, errNoTypes
		case m.id < 0:
			if g.types, err = g.read(g.types, m.end); err != nil {
				return nil, err
			}
			continue
		case m.end > limit:
			return nil, g.skip(m, &sizeError{m.end})
		}
		if g.reserve != nil {
			if err := g.reserve(moved * int64(len(g.types)+m.end)); err != nil {
				return nil, g.skip(m, err)
			}
		}
		dst = slices.Grow(dst, len(g.types)+min(m.end, piece))
		return g.read(append(dst, g.types...), m.end)
	}
}

// moved is how many times a value is in memory while it grows.
const moved = 2

// skip discards a message, because of err.
func (g *gobReader) skip(m message, err error) error {
	if _, failed := g.r.Discard(m.end); failed != nil {
		return unexpected(failed)
	}
	return &skipped{err}
}

// next parses the head of the next message, without consuming it.
func (g *gobReader) next() (message, error) {
	for n := 1; ; n++ {
		head, err := g.r.Peek(min(max(n, g.r.Buffered()), maxMessageHead))
		if err != nil && n > 1 {
			err = unexpected(err)
		}
		if err != nil {
			return message{}, err
		}
		m, err := parseMessage(head)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			return m, err
		}
		n = len(head)
	}
}

// read appends n bytes to b.
func (g *gobReader) read(b []byte, n int) ([]byte, error) {
	for n > 0 {
		k := min(n, piece)
		if room := cap(b) - len(b); room < k {
			b = append(b, make([]byte, k)...)[:len(b)]
		}
		got, err := io.ReadFull(g.r, b[len(b):len(b)+k])
		b = b[:len(b)+got]
		if err != nil {
			return b, unexpected(err)
		}
		n -= got
	}
	return b, nil
}
