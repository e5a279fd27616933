package web

import (
	"errors"
	"log/slog"
	"reflect"
	"regexp"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/estimate"
)

// UnknownFields says what happens to a JSON message with a field that its type does not have.
type UnknownFields int

// What [WithUnknownFields] may set.
const (
	// IgnoreUnknown ignores the field, so that clients may be newer than the server.
	IgnoreUnknown UnknownFields = iota
	// WarnUnknown ignores it, and logs a warning for the first message of a method that has
	// it. At most 1000 warnings are logged.
	WarnUnknown
	// RefuseUnknown refuses the call with InvalidArgument, naming the field. With messages of
	// Protocol Buffers, it refuses names that an enum does not have, too.
	RefuseUnknown
)

// WithUnknownFields sets what happens to JSON messages with unknown fields; IgnoreUnknown by
// default. Types that decode themselves ([json.Unmarshaler]) are left alone.
func WithUnknownFields(u UnknownFields) Option { return func(o *options) { o.unknown = u } }

// maxWarnings is how many methods and fields [WarnUnknown] remembers.
const maxWarnings = 1000

// unknownFields finds fields that types do not have.
type unknownFields struct {
	refuse bool
	strict tandem.Codec

	mu     sync.Mutex
	warned map[[2]string]bool // methods and fields
}

// newUnknownFields returns nil if unknown fields are ignored.
func newUnknownFields(u UnknownFields) *unknownFields {
	if u == IgnoreUnknown {
		return nil
	}
	return &unknownFields{refuse: u == RefuseUnknown, strict: codec.StrictJSON(), warned: map[[2]string]bool{}}
}

// warn logs the first message of a method with a field.
func (u *unknownFields) warn(log *slog.Logger, method, field string) {
	const longest = 100
	key := [2]string{method, field[:min(len(field), longest)]}
	u.mu.Lock()
	known := u.warned[key] || len(u.warned) >= maxWarnings
	if !known {
		u.warned[key] = true
	}
	u.mu.Unlock()
	if !known {
		log.Warn("a message has a field that its type does not have", "method", method, "field", key[1])
	}
}

// checkedJSON is a jsonCodec that finds unknown fields in the messages of a call.
type checkedJSON struct {
	jsonCodec

	fields *unknownFields
	x      *exchange
}

// DecodeWithin reserves the memory of the value before it decodes it.
func (c checkedJSON) DecodeWithin(src []byte, v any, memory codec.Memory) error {
	if _, ok := v.(proto.Message); !ok {
		return c.judge(codec.DecodeWithin(c.fields.strict, src, v, memory), src, v)
	}
	if err := memory.Expect(estimate.JSON(src, c.types.Of(reflect.TypeOf(v)))); err != nil {
		return err
	}
	return c.Decode(src, v)
}

// Decode decodes a message that has no unknown fields, or may have them.
func (c checkedJSON) Decode(src []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		err := protojson.UnmarshalOptions{RecursionLimit: codec.MaxDepth}.Unmarshal(src, m)
		return c.judge(err, src, v)
	}
	return c.judge(c.fields.strict.Decode(src, v), src, v)
}

// judge returns the error of a message, after decoding it again if the error is an unknown field
// that is no error.
func (c checkedJSON) judge(err error, src []byte, v any) error {
	field, unknown := unknownField(err)
	_, isProto := v.(proto.Message)
	switch {
	case err == nil:
		return nil
	case unknown && c.fields.refuse:
		return &codec.UnknownFieldError{Field: field}
	case c.fields.refuse || !unknown && !isProto: // of Protocol Buffers, names of enums may be unknown
		return err
	case unknown:
		c.fields.warn(c.x.conn.Logger(), c.x.call.Method, field)
	}
	if p := reflect.ValueOf(v); !isProto && p.Kind() == reflect.Pointer && !p.IsNil() {
		p.Elem().SetZero() // it is decoded in part
	}
	return c.jsonCodec.Decode(src, v)
}

// unknownInProto matches the error of protojson for an unknown field, which has no type.
var unknownInProto = regexp.MustCompile(`^proto:\s?\x{a0}?\(line \d+:\d+\): unknown field ("(?:[^"\\]|\\.)*")$`)

func unknownField(err error) (field string, ok bool) {
	if e, ok := errors.AsType[*codec.UnknownFieldError](err); ok {
		return e.Field, true
	}
	if err == nil {
		return "", false
	}
	if m := unknownInProto.FindStringSubmatch(err.Error()); m != nil {
		field, err := strconv.Unquote(m[1])
		return field, err == nil
	}
	return "", false
}
