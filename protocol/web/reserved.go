package web

import (
	"bytes"
	"crypto/rand"
	endian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
)

// reserving is the body of a request. It reserves memory for messages before they are read:
// all at once if the size is declared, otherwise in steps.
type reserving struct {
	io.ReadCloser

	x         *exchange
	size      int64   // bytes of a message without an envelope; negative if unknown
	enveloped bool    // each message comes after five bytes with its length
	head      [5]byte // head of the current envelope
	got       int     // bytes of head that have been read
	left      int64   // bytes to read until the message ends, or more memory must be reserved
	held      int64   // bytes of memory reserved for the message
	begun     bool
	early     io.Reader // what was read while the message waited for memory; nil for nothing
	ended     bool      // a body without envelopes has been read to its end
	wait      waiting   // here, so that a message that need not wait costs no allocation
}

// copies is how many times the bytes of a message are in memory while connect reads it: in
// a buffer that doubles, and in the message.
const copies = 3

// step is how much of a message of unknown size is read before memory is reserved, in
// bytes.
const step = 16 << 10

func newReserving(x *exchange, r *http.Request) *reserving {
	kind := contentOf(r)
	return &reserving{ReadCloser: r.Body, x: x, size: r.ContentLength, enveloped: kind.protocol != "connect" || kind.streaming == nil || *kind.streaming}
}

func (in *reserving) Read(b []byte) (int, error) {
	if !in.x.begun { // connect drains a request that it has refused
		return in.ReadCloser.Read(b)
	}
	if in.enveloped {
		return in.readEnvelope(b)
	}
	if err := in.makeRoom(); err != nil {
		return 0, err
	}
	n, err := in.read(b[:min(int64(len(b)), in.left)])
	in.left -= int64(n)
	return n, err
}

// read reads what was read early, and then the body.
func (in *reserving) read(b []byte) (int, error) {
	if in.early != nil {
		if n, err := in.early.Read(b); err == nil {
			return n, nil
		}
		in.early = nil
	}
	return in.ReadCloser.Read(b)
}

// makeRoom reserves memory for the rest of a message without an envelope, as far as its
// size is known.
func (in *reserving) makeRoom() error {
	most := int64(in.x.method.MaxMessage)
	switch size := in.size; {
	case in.left > 0:
		return nil
	case !in.begun && size > most:
		return in.tooLarge(size)
	case !in.begun && size > 0:
		in.begun, in.left = true, size
		return in.reserve(copies * size)
	case !in.begun:
		in.begun, in.left = true, step // so few bytes need no reservation
		return nil
	case size >= 0, in.held >= copies*most: // the whole message has been read, or connect refuses it
		in.left = most
		return nil
	case in.held == 0:
		in.left = step
		return in.reserve(2 * copies * step)
	}
	in.left = in.held / copies
	return in.reserve(in.held)
}

func (in *reserving) readEnvelope(b []byte) (int, error) {
	if in.got < len(in.head) {
		n, err := in.ReadCloser.Read(b[:min(len(b), len(in.head)-in.got)])
		if in.got += copy(in.head[in.got:], b[:n]); in.got < len(in.head) || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		in.x.memory.Return(in.held) // reserved for the previous message
		in.held, in.left = 0, int64(endian.BigEndian.Uint32(in.head[1:]))
		if in.left == 0 {
			in.got = 0
			return n, err
		}
		if refused := in.admitEnvelope(); refused != nil {
			return 0, refused // connect would not see the error of a complete head
		}
		return n, err
	}
	n, err := in.read(b[:min(int64(len(b)), in.left)])
	if in.left -= int64(n); in.left == 0 {
		in.got = 0
	}
	return n, err
}

// admitEnvelope reserves memory for the message whose head was read.
func (in *reserving) admitEnvelope() error {
	switch most := int64(in.x.method.MaxMessage); {
	case in.left <= most:
		return in.reserve(copies * in.left)
	case in.x.method.Kind == tandem.Streaming: // connect refuses it
		return nil
	}
	return in.tooLarge(in.left)
}

// reserve waits for memory. Over HTTP/2 it reads the message meanwhile: net/http lets all requests
// of a connection send 1 MiB together until their handlers read, so those that waited unread would
// keep the data of those that have memory from arriving.
func (in *reserving) reserve(n int64) error {
	switch {
	case n <= copies*step && in.held == 0:
		return nil
	case in.x.req.ProtoMajor < 2 || in.ended:
		return in.await(n)
	}
	w := &in.wait
	*w = waiting{in: in, left: in.left}
	if in.size < 0 && !in.enveloped {
		w.left = int64(in.x.method.MaxMessage) + 1 // one more, for the refusal
	}
	early, err := in.x.memory.ReserveReading(n, w)
	switch {
	case w.failed != nil && errors.Is(err, w.failed):
		return err
	case err != nil:
		return in.refusal(err)
	case early == nil:
	case in.early == nil:
		in.early = early
	default:
		in.early = io.MultiReader(in.early, early)
	}
	in.held += n
	return nil
}

// waiting reads on in a message that waits for memory.
type waiting struct {
	in     *reserving
	left   int64 // bytes until the message ends
	failed error // why the body could not be read
}

// Read reads from the body, which must keep arriving as that of any request.
func (w *waiting) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, io.EOF
	}
	n, err := w.in.ReadCloser.Read(b[:min(int64(len(b)), w.left)])
	w.left -= int64(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		w.failed = err
	case err != nil || w.left <= 0:
		w.in.ended = !w.in.enveloped
		w.in.rest()
		err = io.EOF
	}
	return n, err
}

// rest ends the time limit for the body: from now on the server keeps the client waiting. The
// next Read sets it again. A message of a stream has none between messages.
func (in *reserving) rest() {
	if s, ok := in.ReadCloser.(*timedBody); ok {
		s.left = 0
		_ = s.setDeadline(time.Time{}) // an error means that the connection has ended, as the next Read says
	}
}

// await waits for memory without reading, and then starts the time limit for the body again.
func (in *reserving) await(n int64) error {
	stream, timed := in.ReadCloser.(pacer)
	if timed {
		stream.stop() // the server is waiting for memory, not for the client
	}
	if err := in.x.memory.Reserve(n); err != nil {
		return in.refusal(err)
	}
	in.held += n
	if timed {
		stream.start()
	}
	if s, ok := in.ReadCloser.(*timedBody); ok {
		s.left = 0
	}
	return nil
}

// tooLarge reads the rest of a message of size bytes, because many clients read no response
// before they have sent the request, and returns the error that refuses the call.
func (in *reserving) tooLarge(size int64) error {
	_, _ = io.CopyN(io.Discard, in.ReadCloser, size) // the call is refused in any case
	return in.refusal(&tandem.Error{
		Code: tandem.ResourceExhausted, NotExecuted: true,
		Message: fmt.Sprintf("message of %d bytes is larger than the %d that the method takes", size, in.x.method.MaxMessage),
	})
}

// refusal is the error of a message that was not read. Of a unary call it says that no
// handler has run; that of a stream may have received other messages.
func (in *reserving) refusal(err error) error {
	if in.x.only { // the call reads its message itself
		in.x.refused = err
	}
	if in.x.method.Kind == tandem.Streaming {
		return toConnect(err)
	}
	fields := http.Header{}
	setRetryFields(fields, err)
	return toConnect(err, fields)
}

// markedGzip is connect's decompressor for received messages. It only marks them: the call's
// Body decompresses them, and reserves the memory for that. The mark is random, so that no
// client can forge it.
type markedGzip struct {
	mark []byte
	io.Reader
}

func newMark() []byte {
	mark := make([]byte, 16)
	_, _ = rand.Read(mark) // it never fails
	return mark
}

func (s *markedGzip) Reset(r io.Reader) error {
	s.Reader = io.MultiReader(bytes.NewReader(s.mark), r)
	return nil
}

func (*markedGzip) Close() error { return nil }

// open returns the message, decompressed if markedGzip has marked it.
func (x *exchange) open(m *message) ([]byte, error) {
	packed, ok := bytes.CutPrefix(m.b, x.mark)
	if !ok {
		return m.b, nil
	}
	b, err := x.memory.Decompress(x.gzip, packed, x.method.MaxMessage)
	if errors.Is(err, compress.ErrTooLarge) {
		return nil, &tandem.Error{
			Code: tandem.ResourceExhausted, NotExecuted: x.method.Kind != tandem.Streaming,
			Message: fmt.Sprintf("message has more than %d bytes", x.method.MaxMessage),
		}
	}
	return b, server.Unfit(err)
}

var _ connect.Decompressor = (*markedGzip)(nil)
