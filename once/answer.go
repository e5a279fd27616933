package once

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
)

// recorder is a Body that keeps the encoded response.
type recorder struct {
	tandem.Body

	message []byte // nil if there is none
	lost    string // why the response can't be repeated; "" if it can
}

// Encode encodes the response.
func (b *recorder) Encode(v any) error {
	e := &tandem.Encoded{Value: v}
	err := b.Body.Encode(e)
	b.message, b.lost = e.Message, ""
	if err != nil || e.Message != nil {
		return err
	}
	b.lost = "the protocol does not say how it encodes answers"
	return b.Body.Encode(v)
}

// answer is the answer of a call, as it is kept in JSON.
type answer struct {
	Codec   string          `json:"codec,omitempty"`
	Message []byte          `json:"message"` // nil if the method has sent none
	Trailer tandem.Metadata `json:"trailer,omitempty"`
	Lost    string          `json:"lost,omitempty"` // why the answer is not kept
	Error   *keptError      `json:"error,omitempty"`
}

// keptError is the error of a method.
type keptError struct {
	Code       tandem.Code   `json:"code"`
	Message    string        `json:"message,omitempty"`
	Details    []keptDetail  `json:"details,omitempty"`
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// keptDetail is a tandem.Detail.
type keptDetail struct {
	Type  string `json:"type"`
	Value []byte `json:"value"`
}

func keep(e *tandem.Error) *keptError {
	kept := &keptError{Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter}
	for _, d := range e.Details {
		kept.Details = append(kept.Details, keptDetail(d))
	}
	return kept
}

func (kept *keptError) restore() *tandem.Error {
	e := &tandem.Error{Code: kept.Code, Message: kept.Message, RetryAfter: kept.RetryAfter}
	for _, d := range kept.Details {
		e.Details = append(e.Details, tandem.Detail(d))
	}
	return e
}

// newAnswer encodes the answer of a call that has ended with err.
func newAnswer(call *tandem.Call, body *recorder, err error, most int) []byte {
	a := answer{Codec: call.Codec, Message: body.message, Trailer: call.Trailer, Lost: body.lost}
	if e := tandem.AsError(err); e != nil {
		a.Message, a.Lost, a.Error = nil, "", keep(e)
	}
	text, failed := json.Marshal(a)
	if failed == nil && len(text) <= most {
		return text
	}
	if text, failed = json.Marshal(answer{Lost: fmt.Sprintf("it has %d bytes, and the server keeps %d", len(text), most)}); failed != nil {
		return nil // the record has no answer
	}
	return text
}

// repeat answers a call with an answer that was kept.
func repeat(call *tandem.Call, id ID, kept []byte) error {
	if kept == nil {
		return unrepeatable(id, "its record has none, as an operator has resolved it, or the method has ended the transaction itself")
	}
	var a answer
	switch err := json.Unmarshal(kept, &a); {
	case err != nil:
		return unrepeatable(id, "its record is damaged")
	case a.Lost != "":
		return unrepeatable(id, a.Lost)
	}
	call.Trailer = a.Trailer
	if a.Error != nil {
		return a.Error.restore()
	}
	if a.Codec != call.Codec {
		return unrepeatable(id, fmt.Sprintf("it is encoded with the codec %q, and this call wants %q", a.Codec, call.Codec))
	}
	if a.Message == nil {
		return nil
	}
	if err := call.Body.Encode(&tandem.Encoded{Message: a.Message}); err != nil {
		return unrepeatable(id, err.Error())
	}
	return nil
}
