package codec

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"errors"
	"reflect"
	"sync"

	"github.com/tandem-rpc/tandem"
)

// gobCodec makes gob fast although every message describes its types again. The
// descriptions are the same bytes each time, so an encoder that has sent them is
// kept, and its later messages get a copy of them in front; a decoder that has read
// them is kept, and skips them in later messages that begin with the same bytes.
//
// The type of the value in an interface changes from message to message, so a type
// with interfaces inside takes a new encoder each time, see gobopen.go.
type gobCodec struct {
	types   sync.Map // reflect.Type → *gobType, as many as the program encodes
	schemas gobSchemas
	names   sync.Map // string → reflect.Type, names of gob.Register in messages so far
}

// Gob returns the codec "gob": encoding/gob, each message complete in itself,
// with its type descriptions before its value. Types of values in interfaces must be
// registered with [gob.Register]; types with interfaces inside take several times as
// long to encode as others. As with encoding/gob, a receiver that lacks a field can't
// decode a message whose field has a nil interface as an element.
//
// Messages of Protocol Buffers are refused, on both sides and inside other types: gob
// would lose fields that are present and zero.
//
// A message may describe at most 1,024 types with 4,096 fields in 64 KiB; so
// many, seen for the first time, may take 2 MiB while they are compiled.
func Gob() tandem.Codec { return new(gobCodec) }

func (*gobCodec) Name() string { return "gob" }

func (c *gobCodec) Append(dst []byte, v any) (out []byte, err error) {
	defer guard(v, &err) // of methods like GobEncode
	if p := reflect.ValueOf(v); !p.IsValid() || p.Kind() == reflect.Pointer && p.IsNil() {
		return dst, errors.New("gob: nil has no encoding; send a zero value")
	}
	t := c.typeOf(reflect.TypeOf(v))
	if t.refused != nil {
		return dst, t.refused
	}
	if !t.closed {
		return c.appendOpen(dst, v)
	}
	e := t.encoders.Get().(*gobEncoder)
	out, err = e.append(dst, v)
	if err != nil {
		return dst, err
	}
	t.encoders.Put(e)
	return out, nil
}

// gobType is what the codec keeps for one Go type.
type gobType struct {
	closed   bool      // no interface inside
	refused  error     // why values are not encoded
	encoders sync.Pool // of *gobEncoder that encoded only this type, if closed
}

func (c *gobCodec) typeOf(rt reflect.Type) *gobType {
	if t, ok := c.types.Load(rt); ok {
		return t.(*gobType)
	}
	t := &gobType{closed: isClosed(rt, make(map[reflect.Type]bool)), refused: noProto(rt)}
	t.encoders.New = func() any { return newGobEncoder() }
	kept, _ := c.types.LoadOrStore(rt, t)
	return kept.(*gobType)
}

// isClosed reports whether gob finds no interface in a value of type t.
func isClosed(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] || encodesItself(t) {
		return true
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return false
	case reflect.Map:
		return isClosed(t.Key(), seen) && isClosed(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return isClosed(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() && !isClosed(f.Type, seen) {
				return false
			}
		}
	}
	return true
}

// encodesItself reports whether gob encodes t, if it is not an interface, by t's own
// methods. MarshalText is not one of those, see golang.org/issue/6760.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() != reflect.Interface &&
		(p.Implements(reflect.TypeFor[gob.GobEncoder]()) ||
			p.Implements(reflect.TypeFor[encoding.BinaryMarshaler]()))
}

type gobEncoder struct {
	out    appender
	enc    *gob.Encoder
	prefix []byte // the type descriptions of its first message
}

func newGobEncoder() *gobEncoder {
	e := new(gobEncoder)
	e.enc = gob.NewEncoder(&e.out)
	return e
}

func (e *gobEncoder) append(dst []byte, v any) ([]byte, error) {
	e.out.b = append(dst, e.prefix...) //nolint:gocritic // the encoder writes on where dst ends
	err := e.enc.Encode(v)
	out := e.out.b
	e.out.b = nil
	if err != nil || e.prefix != nil {
		return out, err
	}
	n, err := gobPrefix(out[len(dst):])
	e.prefix = append(make([]byte, 0, n), out[len(dst):len(dst)+n]...)
	return out, err
}

func (c *gobCodec) Decode(src []byte, v any) error { return c.decode(src, v, nil) }

// DecodeWithin calls memory.Expect for the value before it decodes it.
func (c *gobCodec) DecodeWithin(src []byte, v any, memory Memory) error {
	return c.decode(src, v, memory)
}

// decode decodes a message; memory may be nil.
func (c *gobCodec) decode(src []byte, v any, memory Memory) (err error) {
	defer guard(v, &err)
	if err := settable(reflect.ValueOf(v)); err != nil {
		return err
	}
	schema, n, err := c.schemas.of(src)
	if err != nil {
		return err
	}
	d, ok := schema.decoders.Get().(*gobDecoder)
	if !ok {
		d = newGobDecoder(schema)
	}
	cost, err := c.scan(d.plan, src, n, reflect.TypeOf(v))
	if err == nil && memory != nil {
		err = memory.Expect(cost)
	}
	if err != nil {
		if ok {
			schema.decoders.Put(d)
		}
		return err
	}
	if ok {
		src = src[n:]
	}
	if err := d.decode(src, v); err != nil {
		return err
	}
	schema.decoders.Put(d)
	return nil
}

// scan returns an error unless src is, after the n bytes of its type descriptions,
// one complete value that can be decoded into type rt without excessive memory. cost is
// about how many bytes of memory the value takes.
func (c *gobCodec) scan(plan *gobPlan, src []byte, n int, rt reflect.Type) (cost int64, err error) {
	s := gobScan{rest: src[n:], plan: plan, prefix: src[:n], names: &c.names}
	s.next()
	op := plan.alone(s.int(), rt)
	s.cost = far(rt)
	s.alone(op, 0)
	if len(s.msg)+len(s.rest) > 0 {
		s.failf("bytes left over after the value")
	}
	return s.cost, s.err
}

type gobDecoder struct {
	in   bytes.Reader
	dec  *gob.Decoder
	plan *gobPlan
}

func newGobDecoder(schema *gobSchema) *gobDecoder {
	d := &gobDecoder{plan: newGobPlan(schema.types)}
	d.dec = gob.NewDecoder(&d.in)
	return d
}

func (d *gobDecoder) decode(src []byte, v any) error {
	d.in.Reset(src)
	err := d.dec.Decode(v)
	d.in.Reset(nil)
	return err
}
