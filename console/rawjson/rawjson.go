// Package rawjson (experimental) makes calls with JSON where no Go types are at hand, as tandem
// call and the console's playground do.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
)

// Codec returns the codec "json", except that it decodes into a *[]byte by copying the message.
// The response of a method with several results, or none, is not JSON, which only the response
// itself shows: see [Text].
func Codec() tandem.Codec { return raw{codec.JSON()} }

type raw struct{ tandem.Codec }

func (c raw) Decode(src []byte, v any) error {
	if p, ok := v.(*[]byte); ok {
		*p = bytes.Clone(src)
		return nil
	}
	return c.Codec.Decode(src, v)
}

// Text returns a response as JSON: unchanged, as an array for several results, or "" for none.
func Text(response []byte) (string, error) {
	if json.Valid(response) {
		return strings.TrimSpace(string(response)), nil
	}
	count, n := binary.Uvarint(response)
	if n <= 0 || count > uint64(len(response)) {
		return "", tandem.Errorf(tandem.Internal, "the answer is not JSON: %.60q", response)
	}
	if count == 0 {
		return "", nil
	}
	list := make([]json.RawMessage, count)
	results := make(tandem.Results, count)
	for i := range list {
		results[i] = &list[i]
	}
	if err := codec.Decode(codec.JSON(), response, results); err != nil {
		return "", tandem.Errorf(tandem.Internal, "the answer is neither JSON nor several results: %w", err)
	}
	text, err := json.Marshal(list)
	return string(text), err
}

// Several returns the elements of a JSON array as the several arguments of a method.
func Several(text []byte) (tandem.Args, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	args := make(tandem.Args, len(list))
	for i, v := range list {
		args[i] = v
	}
	return args, nil
}
