// Package compress (stable) has the compressors that need nothing but the standard
// library:
//
//	Deflate()  "deflate"  raw DEFLATE, RFC 1951
//	Gzip()     "gzip"     RFC 1952, with a checksum
//
// Snappy and Zstandard are in the packages compress/snappy and compress/zstd,
// so that programs compile only what they use.
//
// # What is compressed
//
// Whole messages, each on its own: no dictionary and no window outlives a
// message. Metadata is never compressed, so a secret in it does not share a
// context with text that an attacker chose (CRIME, BREACH). A message that contains
// both secrets and text of others should not be compressed.
//
// # What decompressing promises
//
// Decompress appends at most limit bytes, and otherwise stops with [ErrTooLarge].
// Memory grows with the output, by doubling, and never beyond the limit; a size
// that the message declares is only used to refuse the message. On any error dst is
// returned unchanged.
//
// A compressor is safe for concurrent use. It pools its state, which
// is some hundred kilobytes for each writer, so make one and share it.
package compress

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tandem-rpc/tandem"
)

// ErrTooLarge is in the chain of the error of Decompress when the message is larger
// than the limit.
var ErrTooLarge = errors.New("decompressed message too large")

// level is the fastest. The default makes text 4 to 10 percent smaller, and
// takes about twice as long.
const level = flate.BestSpeed

// minRoom is the least number of bytes by which output grows.
const minRoom = 512

// expected is how many times as large as its compressed form a message is
// estimated to be. A wrong estimate costs a copy.
const expected = 4

// Deflate returns the compressor "deflate".
func Deflate() tandem.Compressor {
	return newStream("deflate", newFlateWriter, newFlateReader)
}

// Gzip returns the compressor "gzip".
func Gzip() tandem.Compressor {
	return newStream("gzip", newGzipWriter, newGzipReader)
}

// stream is a compressor that uses the writer and the reader of a stream format.
type stream struct {
	name             string
	writers, readers sync.Pool // of *writer and *reader
}

// resetWriter and resetReader can be reset, to be reused for the next message.
type (
	resetWriter interface {
		io.WriteCloser
		Reset(w io.Writer)
	}
	resetReader interface {
		io.Reader
		Reset(r io.Reader) error
	}
)

func newStream(name string, newWriter func() resetWriter, newReader func() resetReader) *stream {
	s := &stream{name: name}
	s.writers.New = func() any { return &writer{to: newWriter()} }
	s.readers.New = func() any { return &reader{from: newReader()} }
	return s
}

func (s *stream) Name() string { return s.name }

func (s *stream) Compress(dst, src []byte) ([]byte, error) {
	w := s.writers.Get().(*writer)
	defer s.writers.Put(w)
	out, err := w.compress(dst, src)
	if err != nil {
		return dst, fmt.Errorf("%s: %w", s.name, err)
	}
	return out, nil
}

func (s *stream) Decompress(dst, src []byte, limit int) ([]byte, error) {
	r := s.readers.Get().(*reader)
	defer s.readers.Put(r)
	out, err := r.decompress(dst, src, limit)
	if err != nil {
		return dst, fmt.Errorf("%s: %w", s.name, err)
	}
	return out, nil
}

// writer is an io.Writer that appends the output of to.
type writer struct {
	out []byte
	to  resetWriter
}

func (w *writer) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

func (w *writer) compress(dst, src []byte) ([]byte, error) {
	w.out = dst
	w.to.Reset(w)
	_, err := w.to.Write(src)
	if err == nil {
		err = w.to.Close()
	}
	out := w.out
	w.out = nil
	return out, err
}

type reader struct {
	in   bytes.Reader // an io.ByteReader, so that from does not read past its end
	from resetReader
}

func (r *reader) decompress(dst, src []byte, limit int) ([]byte, error) {
	r.in.Reset(src)
	defer r.in.Reset(nil)
	if err := r.from.Reset(&r.in); err != nil {
		return dst, fmt.Errorf("no header: %w", err)
	}
	out, err := readAll(dst, r.from, expected*len(src), limit)
	if err == nil && r.in.Len() > 0 {
		err = fmt.Errorf("%d bytes left over", r.in.Len())
	}
	return out, err
}

// readAll appends the bytes of r to dst, at most limit of them. It makes room for
// guess bytes first.
func readAll(dst []byte, r io.Reader, guess, limit int) ([]byte, error) {
	for start := len(dst); ; {
		n := len(dst) - start
		if n >= limit {
			return dst, atEnd(r, limit)
		}
		if len(dst) == cap(dst) {
			dst = grow(dst, min(max(n, guess, minRoom), limit-n))
			guess = 0
		}
		room := dst[len(dst):min(cap(dst), start+limit)]
		m, err := r.Read(room)
		dst = dst[:len(dst)+m]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// grow returns dst with room for exactly n bytes more; append would allocate more.
func grow(dst []byte, n int) []byte {
	out := make([]byte, len(dst), len(dst)+n)
	copy(out, dst)
	return out
}

// atEnd returns an error unless r is at its end.
func atEnd(r io.Reader, limit int) error {
	var more [1]byte
	n, err := io.ReadFull(r, more[:])
	switch {
	case n > 0:
		return fmt.Errorf("%w: limit %d bytes", ErrTooLarge, limit)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

func newFlateWriter() resetWriter {
	w, err := flate.NewWriter(nil, level)
	if err != nil {
		panic(err) // level is a constant of the package
	}
	return w
}

func newGzipWriter() resetWriter {
	w, err := gzip.NewWriterLevel(nil, level)
	if err != nil {
		panic(err) // level is a constant of the package
	}
	return w
}

func newGzipReader() resetReader { return new(gzip.Reader) }

// flateReader is flate's reader with a Reset like that of gzip's.
type flateReader struct{ io.ReadCloser }

func newFlateReader() resetReader { return flateReader{flate.NewReader(nil)} }

func (r flateReader) Reset(src io.Reader) error {
	return r.ReadCloser.(flate.Resetter).Reset(src, nil)
}
