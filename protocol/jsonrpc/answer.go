package jsonrpc

import (
	"encoding/json"
	"errors"

	"github.com/tandem-rpc/tandem"
)

// The errors of the specification.
const (
	parseFailed    = -32700
	invalidRequest = -32600
	methodNotFound = -32601
	invalidParams  = -32602
	internalError  = -32603

	serverError = -32000 // and the 16 codes below, which the specification leaves to servers
)

// words returns the specification's message for a code.
func words(code int) string {
	switch code {
	case parseFailed:
		return "Parse error"
	case invalidRequest:
		return "Invalid Request"
	case methodNotFound:
		return "Method not found"
	case invalidParams:
		return "Invalid params"
	case internalError:
		return "Internal error"
	}
	return ""
}

// fault is an error with a code of the specification.
type fault struct {
	code int
	why  error
}

func (f *fault) Error() string { return f.why.Error() }

// answerError is the error object of version 2.0.
type answerError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

// errorOf converts an error to version 2.0's.
func errorOf(err error) answerError {
	if f, ok := errors.AsType[*fault](err); ok {
		return answerError{f.code, words(f.code), text(f.why)}
	}
	e := tandem.AsError(err)
	switch e.Code {
	case tandem.InvalidArgument:
		return answerError{invalidParams, words(invalidParams), e.Message}
	case tandem.Internal:
		return answerError{internalError, words(internalError), e.Message}
	case tandem.Unknown:
		return answerError{Code: serverError, Message: text(err)}
	}
	return answerError{serverError - int(e.Code), e.Message, e.Code.String()}
}

// text returns an error's text: the method's own, after the name of its code unless that is
// Unknown.
func text(err error) string {
	e := tandem.AsError(err)
	if e.Code == tandem.Unknown && e.Message != "" {
		return e.Message
	}
	return e.Error()
}

// failed returns the response to a message that could not be read.
func failed(code int, why error) []byte {
	return (&request{Version: version2}).failed(&fault{code, why})
}

func (r *request) failed(err error) []byte {
	if r.old() {
		return encode(struct {
			ID     json.RawMessage `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  string          `json:"error"`
		}{r.ID, nil, text(err)})
	}
	return encode(struct {
		Version json.RawMessage `json:"jsonrpc"`
		Error   answerError     `json:"error"`
		ID      json.RawMessage `json:"id"`
	}{version2, errorOf(err), r.ID})
}

// succeeded returns the response with a result, which is JSON.
func (r *request) succeeded(result []byte) []byte {
	switch {
	case result == nil && r.old():
		result = nothing
	case result == nil:
		result = []byte("null")
	}
	room := len(result) + len(r.ID) + len(`{"jsonrpc":"2.0","result":,"id":}`) + len(`,"error":null`)
	b := append(make([]byte, 0, room), '{')
	if !r.old() {
		b = append(b, `"jsonrpc":"2.0",`...)
	}
	b = append(append(b, `"result":`...), result...)
	if r.old() {
		b = append(b, `,"error":null`...)
	}
	b = append(append(b, `,"id":`...), r.ID...)
	return append(b, '}')
}

// encode encodes a response; our responses can always be encoded.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":null}`)
	}
	return b
}
