// Package gobjson makes gobs from JSON, and JSON from gobs, for calls to net/rpc servers where
// the methods' Go types are not at hand: see [Value] and [Text].
package gobjson

import (
	"bytes"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
)

// Codec returns the codec "gob", except that it decodes into a *[]byte by copying the message,
// for [Text].
func Codec() tandem.Codec { return copying{codec.Gob()} }

type copying struct{ tandem.Codec }

func (c copying) Decode(src []byte, v any) error {
	if p, ok := v.(*[]byte); ok {
		*p = bytes.Clone(src)
		return nil
	}
	return codec.Decode(c.Codec, src, v)
}
