// Package msgpack (stable) has the codec "msgpack": MessagePack
// (https://github.com/msgpack/msgpack), by vmihailenco/msgpack/v5.
//
// Fields are named by their `msgpack` tag or, where that is missing, by their
// `msg` tag. A type with the methods MarshalMsg and UnmarshalMsg, which tinylib/msgp
// generates, uses these when it is the message itself; inside other types it is
// encoded by reflection, which writes the same bytes.
//
// # What decoding promises
//
// A message is walked once before it is decoded, without allocating: every
// declared length must be covered by bytes that are there, nothing nests deeper
// than [codec.MaxDepth], nothing follows the value. See package codec for what
// this means for memory.
//
// The only extension type accepted is the timestamp, -1. A message for a type
// with UnmarshalMsg may have any; what it allocates is up to the method.
//
// # What msgpack/v5 does
//
//   - nil is an error for a time.Time that is not behind a pointer.
//   - Decoding into a field that is an embedded pointer to a struct starts one
//     goroutine for each type, which never ends. Embed the struct.
package msgpack

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/estimate"
)

// fallbackTag names the fields that have no `msgpack` tag.
const fallbackTag = "msg"

// maxKept is the largest message, in bytes, whose decoder is kept: it has a
// buffer as large as the longest string.
const maxKept = 64 << 10

// The methods that msgp generates.
type (
	marshaler interface {
		MarshalMsg(b []byte) ([]byte, error)
	}
	unmarshaler interface {
		UnmarshalMsg(b []byte) ([]byte, error)
	}
)

type msgpackCodec struct {
	encoders, decoders sync.Pool
	types              *estimate.Types
}

// Codec returns the codec. It is safe for concurrent use; make one and share it.
func Codec() tandem.Codec {
	c := &msgpackCodec{types: newTypes()}
	c.encoders.New = func() any { return newEncoder() }
	c.decoders.New = func() any { return newDecoder() }
	return c
}

func (*msgpackCodec) Name() string { return "msgpack" }

func (c *msgpackCodec) Append(dst []byte, v any) (out []byte, err error) {
	defer guard(v, &err)
	if m, ok := v.(marshaler); ok {
		return m.MarshalMsg(dst)
	}
	e := c.encoders.Get().(*encoder)
	out, err = e.append(dst, v)
	if err != nil {
		return dst, err
	}
	c.encoders.Put(e)
	return out, nil
}

func (c *msgpackCodec) Decode(src []byte, v any) (err error) {
	defer guard(v, &err)
	if m, ok := v.(unmarshaler); ok {
		return unmarshalMsg(src, m)
	}
	src, err = scan(src, timestamps)
	if err != nil {
		return err
	}
	d := c.decoders.Get().(*decoder)
	if err := d.decode(src, v); err != nil {
		return err
	}
	if len(src) <= maxKept {
		c.decoders.Put(d)
	}
	return nil
}

func unmarshalMsg(src []byte, m unmarshaler) error {
	if _, err := scan(src, anyExtension); err != nil {
		return err
	}
	rest, err := m.UnmarshalMsg(src)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes left over", len(rest))
	}
	return err
}

// guard is deferred around methods of the user's types, and around the decoder,
// which panics instead of failing on well-formed messages that do not fit their
// type: an array as a key of a map[any]T, the same field twice for an interface, a
// string for an interface with methods, nil for a time.Time. Such a decoder is
// dropped, and the panic becomes an error.
func guard(v any, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("msgpack and %T do not agree: %v", v, p)
	}
}

// encoder and decoder are not reused after an error.
type encoder struct {
	out []byte
	enc *msgpack.Encoder
}

func newEncoder() *encoder {
	e := new(encoder)
	e.enc = msgpack.NewEncoder(e)
	e.enc.SetCustomStructTag(fallbackTag)
	e.enc.UseCompactInts(true)
	return e
}

func (e *encoder) append(dst []byte, v any) ([]byte, error) {
	e.out = dst
	err := e.enc.Encode(v)
	out := e.out
	e.out = nil
	return out, err
}

func (e *encoder) Write(p []byte) (int, error) {
	e.out = append(e.out, p...)
	return len(p), nil
}

// WriteByte makes encoder an io.ByteWriter, which msgpack's encoder checks for.
func (e *encoder) WriteByte(b byte) error {
	e.out = append(e.out, b)
	return nil
}

type decoder struct {
	in  bytes.Reader
	dec *msgpack.Decoder
}

func newDecoder() *decoder {
	d := new(decoder)
	d.dec = msgpack.NewDecoder(&d.in)
	d.dec.SetCustomStructTag(fallbackTag)
	return d
}

func (d *decoder) decode(src []byte, v any) error {
	d.in.Reset(src)
	err := d.dec.Decode(v)
	left := d.in.Len()
	d.in.Reset(nil)
	if err == nil && left > 0 {
		err = errors.New("msgpack: a method of the type did not read all of its value")
	}
	return err
}
