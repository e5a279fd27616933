package web

import (
	endian "encoding/binary"
	"errors"
	"io"
)

// envelopes is the body of a stream's answer: messages, each with five bytes before it
// that tell its length. Of a message that is too large, or can't be decoded, connect
// would read what comes after it to the end, which may never come; here that fails.
type envelopes struct {
	io.ReadCloser

	stream *conversation
	head   [5]byte
	got    int   // bytes of the head
	left   int64 // bytes of the message
	last   bool  // it ends the stream
}

var (
	errOneMessage = errors.New("that was the message")
	errTooLarge   = errors.New("it is not read")
)

// Connect's flag for what ends a stream.
const endOfStream = 2

// Read reads no further than to the end of a message, and the next one only for the next
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
