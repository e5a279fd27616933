package services

import (
	"context"
	"encoding/binary"
	"errors"
)

// Greeting is the argument and the reply of [Say]. It encodes itself, for the codec
// "generated": each field in turn, its length as a varint before its bytes.
type Greeting struct {
	Name   string
	Answer string // empty in a request
	Letter string // sent back unchanged
}

// MarshalAppend appends the encoded greeting to dst.
func (g *Greeting) MarshalAppend(dst []byte) ([]byte, error) {
	for _, text := range []string{g.Name, g.Answer, g.Letter} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return dst, nil
}

// Unmarshal decodes what MarshalAppend has encoded.
func (g *Greeting) Unmarshal(b []byte) error {
	for _, field := range []*string{&g.Name, &g.Answer, &g.Letter} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) { //nolint:gosec // Uvarint has read n of the bytes
			return errors.New("greeting: a field is longer than the message")
		}
		*field, b = string(b[n:n+int(size)]), b[n+int(size):] //nolint:gosec // at most len(b)
	}
	if len(b) > 0 {
		return errors.New("greeting: bytes after the last field")
	}
	return nil
}

// say answers a greeting.
func say(_ context.Context, g *Greeting) (*Greeting, error) {
	g.Answer = "Hello, " + g.Name
	return g, nil
}
