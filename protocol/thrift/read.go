package thrift

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// request is a client's request.
type request struct {
	head

	framed  bool
	header  *header // nil if the request has none
	message []byte  // as received; includes its head if it was in a frame
	args    int     // offset of the arguments in message
	method  *server.Method
	limit   int // bytes; limit of the arguments
	most    int // bytes; the server's limit of a message

	// await reserves n bytes of memory, and waits for them until the deadline, zero for none.
	// It is nil for no limit.
	await func(n int64, deadline time.Time) error
}

// refusal is the error of a request that exceeds one of our limits.
type refusal struct {
	text  string
	fatal bool // the next request can't be found
}

func (e *refusal) Error() string { return e.text }

// finder returns the method that a client's name means, nil for none, and the limit of its
// arguments in bytes.
type finder func(name string) (m *server.Method, limit int)

// read reads a request: first its head, which determines the limit, then the rest. After an
// error no further request can be read or answered.
func (q *request) read(r *bufio.Reader, find finder) (*refusal, error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if q.framed = first[0] < maxFrame>>24; q.framed {
		return q.readFramed(r, find)
	}
	return q.readBare(r, find)
}

func (q *request) tooLarge(size int) *refusal {
	return &refusal{text: fmt.Sprintf("message of %d bytes, %s takes at most %d", size, q.name, q.limit)}
}

// probe is how much of a message is read to find its head, compressed or not.
const probe = 4 << 10

// readFramed reads a request with a frame, whose length is known.
func (q *request) readFramed(r *bufio.Reader, find finder) (*refusal, error) {
	length, err := appendFrom(nil, r, frameLen)
	if err != nil {
		return nil, err
	}
	f := frame{r: r, left: int(binary.BigEndian.Uint32(length))}
	if f.left < minMessage {
		return nil, fmt.Errorf("%w: a frame of %d bytes", errNotThrift, f.left)
	}
	q.header, err = f.header()
	refused, isRefused := errors.AsType[*refusal](err)
	if err != nil && !isRefused {
		return nil, err
	}
	if q.message, err = f.take(nil, min(f.left, probe)); err != nil {
		return nil, err
	}
	if err := q.findHead(); err != nil {
		return nil, err
	}
	q.method, q.limit = find(q.name)
	size := len(q.message) + f.left
	if q.header == nil || !q.header.zlib {
		size -= q.args
	}
	if !isRefused && size > q.limit {
		refused = q.tooLarge(size)
	}
	if refused != nil {
		_, err := f.r.Discard(f.left)
		return refused, err
	}
	if err := q.reserve(2 * int64(f.left)); err != nil { // it is copied while it grows
		_, failed := f.r.Discard(f.left)
		return &refusal{text: tandem.AsError(err).Message}, failed
	}
	q.message, err = f.take(q.message, f.left)
	return nil, err
}

func (q *request) reserve(n int64) error {
	if q.await == nil {
		return nil
	}
	return q.await(n, q.deadline(time.Now()))
}

// deadline returns the deadline of the request, zero if it has none.
func (q *request) deadline(now time.Time) time.Time {
	if q.header == nil {
		return time.Time{}
	}
	return deadline(q.header.metadata.Get(keyTimeout), now)
}

// smallMessage is how many bytes of a message are read without reserving memory.
const smallMessage = 4 << 10

// findHead parses the head of the message, whose first bytes have been read.
func (q *request) findHead() (err error) {
	if q.header != nil && q.header.zlib {
		q.head, q.args, err = inflateHead(q.message)
	} else {
		q.head, q.args, err = parseHead(q.message)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: a message without a whole head", errNotThrift)
	case err == nil && q.header != nil && q.header.format != q.format:
		return fmt.Errorf("%w: a message of another protocol than its header says", errNotThrift)
	}
	return err
}

// frame is the unread part of a frame.
type frame struct {
	r    *bufio.Reader
	left int
}

// take appends n bytes of the frame to b.
func (f *frame) take(b []byte, n int) ([]byte, error) {
	if n > f.left {
		return b, fmt.Errorf("%w: %d bytes in a frame that has %d left", errNotThrift, n, f.left)
	}
	f.left -= n
	return appendFrom(b, f.r, n)
}

// header reads the header, nil if the frame has none.
func (f *frame) header() (*header, error) {
	b, err := f.r.Peek(2)
	if err != nil || binary.BigEndian.Uint16(b) != headerMagic {
		return nil, err
	}
	if b, err = f.take(nil, headerLen); err != nil {
		return nil, err
	}
	if b, err = f.take(b, headerSize(b)-headerLen); err != nil {
		return nil, err
	}
	return parseHeader(b)
}

// appendFrom appends n bytes to b.
func appendFrom(b []byte, r io.Reader, n int) ([]byte, error) {
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

// readBare reads a request without a frame. Only its structure tells where it ends, so it
// is parsed once, which needs no memory but that of its bytes. The server's limit ends the
// connection, not the method's, which would reveal that the method exists.
func (q *request) readBare(r *bufio.Reader, find finder) (*refusal, error) {
	var n int
	var err error
	if q.head, n, err = peekHead(r); err != nil {
		return nil, err
	}
	if _, err := r.Discard(n); err != nil {
		return nil, err
	}
	q.method, q.limit = find(q.name)
	rec := &recorder{r: r, limit: max(q.limit, q.most), reserve: q.reserve, held: smallMessage}
	err = newGuard(q.format, rec).Skip(context.Background(), apache.STRUCT)
	if rec.denied != nil {
		return &refusal{text: tandem.AsError(rec.denied).Message, fatal: true}, nil
	}
	if errors.Is(err, errTooLong) || isSizeLimit(err) {
		return &refusal{text: fmt.Sprintf("message of more than %d bytes, or with a size that they can't hold", rec.limit), fatal: true}, nil
	}
	q.message = rec.b
	if err == nil && len(rec.b) > q.limit {
		return q.tooLarge(len(rec.b)), nil
	}
	return nil, err
}

func isSizeLimit(err error) bool {
	e, ok := errors.AsType[apache.TProtocolException](err)
	return ok && e.TypeId() == apache.SIZE_LIMIT
}

// peekHead parses the head of a message without a frame, without consuming it. It waits for
// no more bytes than the head has.
func peekHead(r *bufio.Reader) (head, int, error) {
	for need := 1; need <= maxHead; {
		if _, err := r.Peek(need); err != nil {
			return head{}, 0, err
		}
		b, err := r.Peek(r.Buffered())
		if err != nil {
			return head{}, 0, err
		}
		h, n, err := parseHead(b)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			return h, n, err
		}
		need = len(b) + 1
	}
	return head{}, 0, fmt.Errorf("%w: a head of more than %d bytes", errNotThrift, maxHead)
}

// inflaters is a pool of zlib readers.
var inflaters sync.Pool

// inflater returns a reader that decompresses b, to be put into inflaters after use.
func inflater(b []byte) (io.Reader, error) {
	if r := inflaters.Get(); r != nil {
		return r.(io.Reader), r.(zlib.Resetter).Reset(bytes.NewReader(b), nil)
	}
	return zlib.NewReader(bytes.NewReader(b))
}

// inflateHead parses the head of a compressed message; b has its first bytes.
func inflateHead(b []byte) (head, int, error) {
	r, err := inflater(b)
	if err != nil {
		return head{}, 0, fmt.Errorf("%w: %w", errNotThrift, err)
	}
	defer inflaters.Put(r)
	var room [maxHead]byte
	have := 0
	for {
		n, failed := r.Read(room[have:])
		have += n
		h, n, err := parseHead(room[:have])
		if !errors.Is(err, io.ErrUnexpectedEOF) || failed != nil || have == len(room) {
			return h, n, err
		}
	}
}

// inflate decompresses b, and returns errTooLong if that is more than limit bytes.
func inflate(b []byte, limit int) ([]byte, error) {
	r, err := inflater(b)
	if err != nil {
		return nil, err
	}
	defer inflaters.Put(r)
	plain, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(plain) > limit {
		err = errTooLong
	}
	return plain, err
}

// zlibs is the compressor that decompresses requests: zlib.
type zlibs struct{}

func (zlibs) Name() string { return "zlib" }

func (zlibs) Compress(dst, src []byte) ([]byte, error) { return append(dst, deflate(src)...), nil }

func (zlibs) Decompress(dst, src []byte, limit int) ([]byte, error) {
	plain, err := inflate(src, limit)
	if err != nil {
		return dst, err
	}
	return append(dst, plain...), nil
}

// deflate compresses a message.
func deflate(b []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write(b) // a Buffer takes all
	_ = w.Close()     // a Buffer takes all
	return out.Bytes()
}
