package web

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/internal/http2calls"
)

// connectDialect is Connect.
type connectDialect struct{}

func (connectDialect) needsHTTP2() bool { return false }

func (connectDialect) agent() string { return "connect-go-tandem" }

func (connectDialect) header(to []http2.Field, call *tandem.Call, unary bool) []http2.Field {
	accept := "connect-accept-encoding"
	if unary {
		accept = "accept-encoding"
	}
	to = append(to, http2.Field{Name: "content-type", Value: connectType(call.Codec, unary)},
		http2.Field{Name: "connect-protocol-version", Value: "1"}, http2.Field{Name: accept, Value: "gzip"})
	if !call.Deadline.IsZero() {
		const most = 1e10 - 1 // ten digits
		left := min(max((time.Until(call.Deadline)+time.Millisecond-1).Milliseconds(), 1), most)
		to = append(to, http2.Field{Name: "connect-timeout-ms", Value: strconv.FormatInt(left, 10), Sensitive: true}) // few calls have the same
	}
	return to
}

func connectType(codec string, unary bool) string {
	switch {
	case unary && codec == "json":
		return "application/json"
	case unary:
		return "application/proto"
	case codec == "json":
		return "application/connect+json"
	default:
		return "application/connect+proto"
	}
}

func (connectDialect) request(x *http2calls.Exchange, message []byte, limit int) {
	x.MaxBody = limit
	x.Body = append(x.Body[:0], message...)
}

func (connectDialect) skim(b *http2.Block, trailer bool) bool {
	for i := range b.Fields {
		switch f := &b.Fields[i]; f.Name {
		case "content-type":
			if f.Value != "application/proto" {
				return false
			}
		case "date", "content-length", "accept-encoding", "vary":
		default:
			return false
		}
	}
	return !trailer && b.Status == http.StatusOK
}

// response takes the response of a unary call.
func (connectDialect) response(h *http2Caller, r *client.Request, x *http2calls.Exchange) error {
	r.Reply = x.Response
	if x.Head == nil {
		return nil
	}
	header, trailer := splitTrailer(headerOf(x.Head))
	encoding, err := encodingOf(x.Head, "content-encoding")
	if err != nil {
		return err
	}
	if encoding == "gzip" {
		if r.Reply, err = h.decompress(r.Reply); err != nil {
			return err
		}
	}
	if x.Head.Status != http.StatusOK {
		return connectError(x.Head.Status, r, header, trailer)
	}
	if err := connectKind(x.Head, r.Call.Codec); err != nil {
		return err
	}
	r.Call.Trailer = metadataOf(header, trailer)
	return nil
}

// connectKind checks the type of a unary call's response.
func connectKind(head *http2.Block, codec string) error {
	if kind, want := fieldOf(head, "content-type"), connectType(codec, true); kind != want && kind != want+"; charset=utf-8" {
		return wrongType(kind, want)
	}
	return nil
}

func (connectDialect) check(head *http2.Block, codec string) error {
	if head.Status != http.StatusOK {
		return statusError(head.Status)
	}
	return connectKind(head, codec)
}

// splitTrailer separates the header of a response from the trailer that it has.
func splitTrailer(h http.Header) (header, trailer http.Header) {
	const prefix = "Trailer-"
	trailer = http.Header{}
	for name, values := range h {
		if last, ok := strings.CutPrefix(name, prefix); ok {
			delete(h, name)
			trailer[last] = values
		}
	}
	return h, trailer
}

// wireError is Connect's JSON of an error.
type wireError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	} `json:"details"`
}

// error returns the error; other is its code if it names none. ok is false if its details can't be
// decoded.
func (w *wireError) error(other tandem.Code) (_ *tandem.Error, ok bool) {
	e := &tandem.Error{Code: other, Message: w.Message, Remote: true}
	var code connect.Code
	if code.UnmarshalText([]byte(w.Code)) == nil {
		e.Code = remoteCode(uint64(code))
	}
	for _, d := range w.Details {
		value, err := connect.DecodeBinaryHeader(d.Value)
		if ok = err == nil; !ok {
			return nil, false
		}
		e.Details = append(e.Details, tandem.Detail{Type: d.Type[strings.LastIndexByte(d.Type, '/')+1:], Value: value})
	}
	return e, true
}

// connectError returns the error of a unary call's response with a status that is not 200.
func connectError(status int, r *client.Request, header, trailer http.Header) error {
	body := r.Reply
	r.Reply = nil
	kind := header.Get("Content-Type")
	if kind != "application/json" && kind != "application/json; charset=utf-8" {
		return plainStatus(status, header)
	}
	var w wireError
	if json.Unmarshal(body, &w) != nil {
		return plainStatus(status, header)
	}
	e, ok := w.error(codeOfStatus(status))
	if !ok {
		return plainStatus(status, header)
	}
	readRetryFields(header, e)
	if md := metadataOf(header, trailer); len(md) > 0 {
		r.Call.Trailer = md
	}
	return e
}

// plainStatus is statusError, with what the header says about retries.
func plainStatus(status int, header http.Header) error {
	err := statusError(status)
	if e := tandem.AsError(err); !e.NotExecuted {
		readRetryFields(header, e)
		return e
	}
	return err
}

func (connectDialect) begin(head *http2.Block, codec string) (encoding string, err error) {
	if head.Status != http.StatusOK {
		return "", statusError(head.Status)
	}
	if kind, want := fieldOf(head, "content-type"), connectType(codec, false); kind != want {
		return "", wrongType(kind, want)
	}
	return encodingOf(head, "connect-content-encoding")
}

func (connectDialect) message(m *http2Messages, flags byte, message []byte) ([]byte, error) {
	message, err := m.caller.unpack(message, flags&^flagEnd, m.encoding)
	if err != nil || flags&flagEnd == 0 {
		return message, err
	}
	var last struct {
		Error    *wireError          `json:"error"`
		Metadata map[string][]string `json:"metadata"`
	}
	if err := json.Unmarshal(message, &last); err != nil {
		return nil, tandem.Errorf(tandem.Internal, "the last message of the stream can't be decoded: %w", err)
	}
	header, trailer := headerOf(m.head), http.Header{}
	for name, values := range last.Metadata {
		trailer[http.CanonicalHeaderKey(name)] = values
	}
	m.call.Trailer = metadataOf(header, trailer)
	if last.Error == nil {
		return nil, io.EOF
	}
	e, ok := last.Error.error(tandem.Unknown)
	if !ok {
		return nil, tandem.Errorf(tandem.Internal, "the details of the stream's error can't be decoded")
	}
	for name, values := range trailer {
		header[name] = append(header[name], values...)
	}
	readRetryFields(header, e)
	return nil, e
}

func (connectDialect) end(*tandem.Call, *http2.Block, *http2.Block) error {
	return tandem.Errorf(tandem.Internal, "the response ends without the message that ends the stream")
}
