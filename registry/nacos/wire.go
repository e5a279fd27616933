package nacos

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxFrame is the largest message of Nacos's gRPC that is read, in bytes.
const maxFrame = maxAnswer

// payload is the one message of Nacos's gRPC: the name of a Java class, and its fields as JSON.
// In Protocol Buffers it is
//
//	message Payload { Metadata metadata = 2; google.protobuf.Any body = 3; }
//	message Metadata { string type = 3; string clientIp = 8; map<string, string> headers = 7; }
type payload struct {
	kind    string
	headers map[string]string
	body    []byte
}

// Fields and wire types of the message.
const (
	fieldMetadata, fieldBody  = 2, 3
	fieldType, fieldHeaders   = 3, 7
	fieldEntryKey, fieldEntry = 1, 2
	fieldAnyValue             = 2

	varint, fixed64, bytesType, fixed32 = 0, 1, 2, 5
)

// frame returns the payload with the head of a gRPC message: not compressed, and its length.
func (p *payload) frame() []byte {
	metadata := appendField(nil, fieldType, []byte(p.kind))
	for name, value := range p.headers {
		entry := appendField(appendField(nil, fieldEntryKey, []byte(name)), fieldEntry, []byte(value))
		metadata = appendField(metadata, fieldHeaders, entry)
	}
	message := appendField(nil, fieldMetadata, metadata)
	message = appendField(message, fieldBody, appendField(nil, fieldAnyValue, p.body))
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // a request of this package
	return append(b, message...)
}

func appendField(b []byte, field int, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3|bytesType) //nolint:gosec // a constant
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

// readFrame reads one message.
func readFrame(r io.Reader) (*payload, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0] != 0:
		return nil, errors.New("a message of the server is compressed, which was not offered")
	case n > maxFrame:
		return nil, fmt.Errorf("a message of the server has %d bytes, limit %d", n, maxFrame)
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(data) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return parsePayload(data)
}

// parsePayload parses a Payload. Headers are left out: only requests have them.
func parsePayload(data []byte) (*payload, error) {
	p := new(payload)
	err := fields(data, func(field int, value []byte) error {
		switch field {
		case fieldMetadata:
			return fields(value, func(field int, value []byte) error {
				if field == fieldType {
					p.kind = string(value)
				}
				return nil
			})
		case fieldBody:
			return fields(value, func(field int, value []byte) error {
				if field == fieldAnyValue {
					p.body = value
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("a message of the server: %w", err)
	}
	return p, nil
}

var errCutOff = errors.New("it is no Protocol Buffers message, or is cut off")

// fields calls do for each field that has bytes, and skips others.
func fields(data []byte, do func(field int, value []byte) error) error {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return errCutOff
		}
		data = data[n:]
		size, head := uint64(0), 0
		switch tag & 7 {
		case varint:
			_, head = binary.Uvarint(data)
			if head <= 0 {
				return errCutOff
			}
		case fixed64:
			size = 8
		case fixed32:
			size = 4
		case bytesType:
			if size, head = binary.Uvarint(data); head <= 0 {
				return errCutOff
			}
		default:
			return errCutOff
		}
		if data = data[head:]; size > uint64(len(data)) {
			return errCutOff
		}
		if tag&7 == bytesType {
			if err := do(int(tag>>3), data[:size]); err != nil {
				return err
			}
		}
		data = data[size:]
	}
	return nil
}

// result is what every response has.
type result struct {
	Code    int    `json:"resultCode"`
	Error   int    `json:"errorCode"`
	Message string `json:"message"`
}

// resultOK is the resultCode of success.
const resultOK = 200

// resultError is a response of Nacos that is no success.
type resultError struct {
	request string
	result
}

// Error says what was asked for, and what Nacos said.
func (e *resultError) Error() string {
	return fmt.Sprintf("%s: result %d, error %d: %.200q", e.request, e.Code, e.result.Error, e.Message)
}

// into decodes the body of a response. It fails if the response is no success.
func (p *payload) into(request string, to any) error {
	var r result
	if err := json.Unmarshal(p.body, &r); err != nil {
		return fmt.Errorf("%s: the response is no JSON: %w", request, err)
	}
	if r.Code != resultOK {
		return &resultError{request, r}
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(p.body, to); err != nil {
		return fmt.Errorf("%s: the response: %w", request, err)
	}
	return nil
}
