package web

import (
	endian "encoding/binary"
	"errors"
	"io"
)

// envelopes is the body of a stream's response: messages, each after five bytes with its
// length. After a message that is too large or can't be decoded, connect would read the
// body to its end, which may never come; here that read fails.
type envelopes struct {
	io.ReadCloser

	stream *clientStream
	head   [5]byte
	got    int   // bytes of head that have been read
	left   int64 // bytes of the message that have not been read
	last   bool  // the message is the one that ends the stream
}

var (
	errOneMessage = errors.New("that was the message")
	errTooLarge   = errors.New("it is not read")
)

// endOfStream is Connect's flag for the message that ends a stream.
const endOfStream = 2

// Read stops at the end of a message, and reads the next message only after the next
// Receive.
func (e *envelopes) Read(b []byte) (int, error) {
	headed := e.got == len(e.head)
	switch {
	case headed && e.last:
		return e.read(b)
	case headed && e.left == 0 && !e.stream.begun:
		return 0, errOneMessage
	case headed && e.left == 0:
		e.got = 0
	case headed && e.left > int64(e.stream.most):
		return 0, errTooLarge
	case headed:
		n, err := e.read(b[:min(int64(len(b)), e.left)])
		e.left -= int64(n)
		return n, err
	}
	e.stream.begun = false
	n, err := e.read(b[:min(len(b), len(e.head)-e.got)])
	if e.got += copy(e.head[e.got:], b[:n]); e.got == len(e.head) {
		e.left, e.last = int64(endian.BigEndian.Uint32(e.head[1:])), e.head[0]&endOfStream != 0
	}
	return n, err
}

func (e *envelopes) read(b []byte) (int, error) {
	n, err := e.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		e.stream.lose(err)
	}
	return n, err
}
