// Package codec (stable) has the codecs that need nothing but the standard library, and
// the two functions that the layers above encode and decode with.
//
//	Raw()        "raw"        bytes as they are
//	Gob()        "gob"        encoding/gob, each message complete in itself
//	JSON()       "json"       encoding/json
//	Generated()  "generated"  types with marshalling methods of their own
//
// MessagePack and Protocol Buffers are in the packages codec/msgpack and
// codec/protobuf, so that programs compile only what they use. Every codec is a
// value, safe for concurrent use; its caches belong to that value, so make one and
// share it.
//
// # What decoding promises
//
// Messages are not trusted. Whatever the bytes are, decoding ends with a value or
// an error: it does not panic, and takes no memory because of a declared length. Gob
// and MessagePack messages are walked before they are decoded, and refused if a
// declared length exceeds the bytes that are there. Messages that nest deeper than
// [MaxDepth] are refused.
//
// So every element that is allocated takes at least one byte of input. Flat data
// takes at most 16 times the message plus 64 KiB. It takes more where the Go type is
// much larger than its encoding: a slice of large structs, each sent as one byte,
// takes the size of the struct per byte, and trees decoded into interfaces take up
// to about 100 bytes per byte. Types with methods of their own decode by those
// methods: a panic in one becomes an error that names the type, but the memory that
// it allocates is not bounded here.
package codec

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/tandem-rpc/tandem"
)

// MaxDepth is how deep arrays, maps and structures of a message may nest inside
// one another.
const MaxDepth = 64

// Append appends the encoding of v by c to dst. On an error it returns dst
// unchanged; the error names the codec and the type.
//
//   - A nil v is the empty message: nothing is appended, whatever the codec.
//   - [tandem.Args] and [tandem.Results] are packed: their number as an
//     unsigned varint (see encoding/binary), then each value's length as an
//     unsigned varint and its encoding by c.
//   - A [*tandem.Encoded] is appended as it says.
//   - Everything else is encoded by c alone.
func Append(c tandem.Codec, dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case *tandem.Encoded:
		return v.Append(dst, func(dst []byte, v any) ([]byte, error) { return Append(c, dst, v) })
	case tandem.Args:
		return appendPacked(c, dst, v)
	case tandem.Results:
		return appendPacked(c, dst, v)
	}
	return appendOne(c, dst, v)
}

// Decode decodes src, which [Append] has encoded with the same codec, into the
// pointer v. The error names the codec and the type.
//
//   - A nil v discards the message without checking it.
//   - [tandem.Args] and [tandem.Results] hold pointers to decode the packed
//     values into, as many as the message has; a nil among them discards its
//     value.
//   - An empty message sets what v points to its zero value.
func Decode(c tandem.Codec, src []byte, v any) error {
	switch v := v.(type) {
	case tandem.Args:
		return decodePacked(c, src, v)
	case tandem.Results:
		return decodePacked(c, src, v)
	}
	if v == nil || len(src) == 0 {
		return decodeNothing(c, v)
	}
	if err := c.Decode(src, v); err != nil {
		if n, packed := packedValues(src); packed {
			err = fmt.Errorf("the message has %d values, packed as tandem.Args, want a single one", n)
		}
		return failed(c, "decoding into", v, err)
	}
	return nil
}

func appendOne(c tandem.Codec, dst []byte, v any) ([]byte, error) {
	if v == nil {
		return dst, nil
	}
	out, err := c.Append(dst, v)
	if err != nil {
		return dst, failed(c, "encoding", v, err)
	}
	return out, nil
}

// decodeNothing decodes the empty message into v, or any message into nil.
func decodeNothing(c tandem.Codec, v any) error {
	if v == nil {
		return nil
	}
	if err := setZero(v); err != nil {
		return failed(c, "decoding into", v, err)
	}
	return nil
}

func failed(c tandem.Codec, doing string, v any, err error) error {
	return fmt.Errorf("codec %s: %s %T: %w", c.Name(), doing, v, err)
}

// setZero decodes an empty message: it sets *v to its zero value.
func setZero(v any) error {
	p := reflect.ValueOf(v)
	if err := settable(p); err != nil {
		return err
	}
	p.Elem().SetZero()
	return nil
}

// settable returns an error unless p is a pointer that something can be
// decoded into.
func settable(p reflect.Value) error {
	if p.Kind() != reflect.Pointer {
		return errors.New("not a pointer; pass the address of the variable")
	}
	if p.IsNil() {
		return errors.New("a nil pointer; pass the address of a variable")
	}
	return nil
}

// guard is deferred around code of others, such as a type's own methods or the
// reflection of encoding/gob, and turns its panic into an error.
func guard(v any, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%T panicked: %v", v, p)
	}
}

// appender is an io.Writer that appends.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
