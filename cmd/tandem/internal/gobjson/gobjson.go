// Package gobjson makes gobs from JSON, and JSON from gobs, for calls to net/rpc servers where
// the methods' Go types are not at hand.
package gobjson

import (
	"encoding/json"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
)

// Codec returns the codec "gob" for messages in JSON: it encodes a [json.RawMessage] as [Value]
// says, and decodes into a *[]byte as [Text] says. Other values are those of [codec.Gob].
func Codec() tandem.Codec { return converter{codec.Gob()} }

type converter struct{ tandem.Codec }

func (c converter) Append(dst []byte, v any) ([]byte, error) {
	if text, ok := v.(json.RawMessage); ok {
		value, err := Value(text)
		if err != nil {
			return dst, err
		}
		v = value
	}
	return codec.Append(c.Codec, dst, v)
}

func (c converter) Decode(src []byte, v any) error {
	p, ok := v.(*[]byte)
	if !ok {
		return codec.Decode(c.Codec, src, v)
	}
	text, err := Text(src)
	if err != nil {
		return fmt.Errorf("gob: %w", err)
	}
	*p = text
	return nil
}
