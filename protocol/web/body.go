package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// decode decodes one message into a method's arguments, or into the value that a stream
// receives.
func decode(c tandem.Codec, src []byte, v any) error {
	var err error
	switch several, ok := v.(tandem.Results); {
	case ok && len(several) == 0:
		err = checkNothing(c, src)
	case ok && c.Name() == "json":
		err = decodeEach(c, src, several)
	case ok:
		return tandem.Errorf(tandem.Unimplemented, "it has %d arguments, which is for JSON: a message of Protocol Buffers is one", len(several))
	case len(src) == 0 && c.Name() == "json":
		err = errors.New("there is no JSON")
	case len(src) == 0 && v != nil:
		err = c.Decode(src, v) // a message without fields, perhaps of a type created at run time
	default:
		err = codec.Decode(c, src, v)
	}
	return server.Unfit(err)
}

// checkNothing returns an error if a message for a method without arguments has content.
// Unknown fields of Protocol Buffers are no error.
func checkNothing(c tandem.Codec, src []byte) error {
	if c.Name() != "json" {
		return nil
	}
	switch string(bytes.TrimSpace(src)) {
	case "", "{}", "[]", "null":
		return nil
	}
	return errors.New("there are arguments, and none are wanted")
}

func decodeEach(c tandem.Codec, src []byte, targets []any) error {
	var list []json.RawMessage
	if err := c.Decode(src, &list); err != nil {
		return fmt.Errorf("the %d arguments are an array: %w", len(targets), err)
	}
	if len(list) != len(targets) {
		return fmt.Errorf("there are %d arguments, %d are wanted", len(list), len(targets))
	}
	for i, b := range list {
		if err := c.Decode(b, targets[i]); err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return nil
}

// encode encodes the results of a method, or what a stream sends.
func encode(c tandem.Codec, v any) ([]byte, error) { return appendEncoded(c, nil, v) }

// appendEncoded appends a message to dst.
func appendEncoded(c tandem.Codec, dst []byte, v any) ([]byte, error) {
	if e, ok := v.(*tandem.Encoded); ok {
		return e.Append(dst, func(dst []byte, v any) ([]byte, error) { return appendEncoded(c, dst, v) })
	}
	several, ok := v.(tandem.Args)
	switch {
	case ok && len(several) == 0 && c.Name() == "json":
		return append(dst, "{}"...), nil
	case ok && len(several) == 0:
		return dst, nil
	case ok && c.Name() == "json":
		return appendEach(c, dst, several)
	case ok:
		return dst, tandem.Errorf(tandem.Unimplemented, "it has %d results, which is for JSON: a message of Protocol Buffers is one", len(several))
	}
	return codec.Append(c, dst, v)
}

func appendEach(c tandem.Codec, dst []byte, values []any) ([]byte, error) {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		if v == nil {
			dst = append(dst, "null"...)
			continue
		}
		var err error
		if dst, err = codec.Append(c, dst, v); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}
