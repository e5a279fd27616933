package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/estimate"
)

type jsonCodec struct {
	encoders sync.Pool // of *jsonEncoder
	strict   bool      // unknown fields are refused
	types    *estimate.Types
}

type jsonEncoder struct {
	out appender
	enc *json.Encoder
}

// JSON returns the codec "json": encoding/json, without escaping HTML. A
// [json.RawMessage] that is valid passes through unchanged, in both directions.
func JSON() tandem.Codec { return newJSON(false) }

// StrictJSON is [JSON], but a field of an object that the struct does not have is an
// [*UnknownFieldError]. Types that decode themselves ([json.Unmarshaler]) decide on their own.
func StrictJSON() tandem.Codec { return newJSON(true) }

// UnknownFieldError is the error of [StrictJSON] for a field that a struct does not have.
type UnknownFieldError struct{ Field string }

// Error names the field.
func (e *UnknownFieldError) Error() string { return fmt.Sprintf("unknown field %.100q", e.Field) }

func newJSON(strict bool) tandem.Codec {
	c := &jsonCodec{types: estimate.JSONTypes(), strict: strict}
	c.encoders.New = func() any {
		e := new(jsonEncoder)
		e.enc = json.NewEncoder(&e.out)
		e.enc.SetEscapeHTML(false)
		return e
	}
	return c
}

func (*jsonCodec) Name() string { return "json" }

func (c *jsonCodec) Append(dst []byte, v any) (out []byte, err error) {
	out = dst //nolint:wastedassign // the result after a panic
	defer guard(v, &err)
	switch v := v.(type) {
	case json.RawMessage:
		return appendRawJSON(dst, v)
	case *json.RawMessage:
		if v != nil {
			return appendRawJSON(dst, *v)
		}
	}
	e := c.encoders.Get().(*jsonEncoder)
	e.out.b = dst
	err = e.enc.Encode(v)
	b := e.out.b
	e.out.b = nil
	c.encoders.Put(e)
	if err != nil {
		return dst, err
	}
	return b[:len(b)-1], nil // without the line feed that Encode appends
}

func appendRawJSON(dst []byte, v json.RawMessage) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	if !json.Valid(v) {
		return dst, errors.New("the raw message is not valid JSON")
	}
	return append(dst, v...), nil
}

func (c *jsonCodec) Decode(src []byte, v any) (err error) {
	defer guard(v, &err)
	if jsonDepth(src) > MaxDepth {
		return fmt.Errorf("nested deeper than %d", MaxDepth)
	}
	if c.strict {
		return decodeStrict(src, v)
	}
	return json.Unmarshal(src, v)
}

func decodeStrict(src []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		// encoding/json has no type for this error.
		if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			if field, err := strconv.Unquote(quoted); err == nil {
				return &UnknownFieldError{field}
			}
		}
		return err
	}
	if rest := bytes.TrimLeft(src[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("invalid character %q after top-level value", rest[0])
	}
	return nil
}

// DecodeWithin calls memory.Expect for the value before it decodes it.
func (c *jsonCodec) DecodeWithin(src []byte, v any, memory Memory) error {
	if err := settable(reflect.ValueOf(v)); err != nil {
		return err
	}
	if jsonDepth(src) <= MaxDepth { // else Decode returns the error
		if err := memory.Expect(estimate.JSON(src, c.types.Of(reflect.TypeOf(v)))); err != nil {
			return err
		}
	}
	return c.Decode(src, v)
}

// jsonDepth returns how deep src nests, if it is JSON.
func jsonDepth(src []byte) int {
	deepest, depth := 0, 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		case '"':
			i = endOfString(src, i+1)
		}
	}
	return deepest
}

// endOfString returns the index of the quote that ends the string at i.
func endOfString(src []byte, i int) int {
	for ; i < len(src) && src[i] != '"'; i++ {
		if src[i] == '\\' {
			i++
		}
	}
	return i
}
