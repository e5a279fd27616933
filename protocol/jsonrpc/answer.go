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

	serverError = -32000 // and 16 below: reserved for us
)

// words are the specification's.
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

// fault is an error that has its code already.
type fault struct {
	code int
	why  error
}

func (f *fault) Error() string { return f.why.Error() }

// answerError is an error in version 2.0.
type answerError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

// errorOf is how an error crosses in version 2.0.
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

// text is an error in words: the method's own, with the name of its code before it
// unless it has none.
func text(err error) string {
	e := tandem.AsError(err)
	if e.Code == tandem.Unknown && e.Message != "" {
		return e.Message
	}
	return e.Error()
}

// failed is the answer to what could not be read.
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

// succeeded is the answer with a result, which is JSON.
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

// encode encodes an answer of ours, of which nothing can't be encoded.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":null}`)
	}
	return b
}
