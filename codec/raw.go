package codec

import (
	"bytes"
	"errors"

	"github.com/tandem-rpc/tandem"
)

type raw struct{}

// Raw returns the codec "raw": it encodes a []byte or *[]byte as its bytes, and
// decodes into a *[]byte, which gets a copy of the message.
func Raw() tandem.Codec { return raw{} }

func (raw) Name() string { return "raw" }

func (raw) Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return append(dst, v...), nil
	case *[]byte:
		if v == nil {
			return dst, errors.New("a nil *[]byte")
		}
		return append(dst, *v...), nil
	}
	return dst, errors.New("only []byte and *[]byte are encoded; choose another codec")
}

// Decode does not overwrite the old bytes of v, which the user may have kept.
func (raw) Decode(src []byte, v any) error {
	p, ok := v.(*[]byte)
	if !ok || p == nil {
		return errors.New("only a *[]byte is decoded into; choose another codec")
	}
	*p = bytes.Clone(src)
	return nil
}
