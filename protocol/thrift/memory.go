package thrift

import (
	"bufio"
	"context"
	"errors"
	"io"
)

// memory is a transport for Apache's protocols that reads and writes a byte slice.
type memory struct {
	b   []byte
	off int // offset of the next read
}

func (m *memory) Read(p []byte) (int, error) {
	if m.off == len(m.b) && len(p) > 0 {
		return 0, io.ErrUnexpectedEOF // a read at the end means that the message is too short
	}
	n := copy(p, m.b[m.off:])
	m.off += n
	return n, nil
}

func (m *memory) ReadByte() (byte, error) {
	if m.off == len(m.b) {
		return 0, io.ErrUnexpectedEOF
	}
	m.off++
	return m.b[m.off-1], nil
}

// RemainingBytes returns how many bytes can be read.
func (m *memory) RemainingBytes() uint64 { return uint64(len(m.b) - m.off) } //nolint:gosec // never below 0

func (m *memory) Write(p []byte) (int, error) {
	m.b = append(m.b, p...)
	return len(p), nil
}

func (m *memory) WriteByte(c byte) error {
	m.b = append(m.b, c)
	return nil
}

func (m *memory) WriteString(s string) (int, error) {
	m.b = append(m.b, s...)
	return len(s), nil
}

func (*memory) Flush(context.Context) error { return nil }
func (*memory) Open() error                 { return nil }
func (*memory) IsOpen() bool                { return true }
func (*memory) Close() error                { return nil }

// recorder reads from a connection and keeps the bytes.
type recorder struct {
	memory

	r       *bufio.Reader
	limit   int // bytes; limit of the bytes that are kept
	reserve func(n int64) error
	held    int   // bytes that may be kept without reserving more
	denied  error // why no more may be kept; Apache's code converts it to text
}

// room reserves memory for n more bytes, twice since they are copied when the slice grows.
func (r *recorder) room(n int) error {
	for len(r.b)+n > r.held {
		more := max(r.held, piece)
		if r.denied = r.reserve(2 * int64(more)); r.denied != nil {
			return r.denied
		}
		r.held += more
	}
	return nil
}

// errTooLong is the error of a recorder at its limit.
var errTooLong = errors.New("the message is longer than its limit")

func (r *recorder) Read(p []byte) (int, error) {
	if len(r.b)+len(p) > r.limit {
		return 0, errTooLong
	}
	if err := r.room(len(p)); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	r.b = append(r.b, p[:n]...)
	return n, err
}

func (r *recorder) ReadByte() (byte, error) {
	if len(r.b) == r.limit {
		return 0, errTooLong
	}
	if err := r.room(1); err != nil {
		return 0, err
	}
	c, err := r.r.ReadByte()
	if err == nil {
		r.b = append(r.b, c)
	}
	return c, err
}

// RemainingBytes returns how many bytes may be read.
func (r *recorder) RemainingBytes() uint64 { return uint64(r.limit - len(r.b)) } //nolint:gosec // never below 0
