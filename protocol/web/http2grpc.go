package web

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/internal/http2calls"
)

// dialect is what differs between gRPC and Connect when a client speaks them over HTTP/2.
type dialect interface {
	// needsHTTP2 reports whether servers support HTTP/2 only.
	needsHTTP2() bool
	// agent is the value of User-Agent.
	agent() string
	// header appends the protocol's own fields of a request.
	header(to []http2.Field, call *tandem.Call, unary bool) []http2.Field
	// request sets the body of a unary call.
	request(x *http2calls.Exchange, message []byte, limit int)
	// skim reports whether a header or trailer says nothing but success.
	skim(b *http2.Block, trailer bool) bool
	// response takes the response of a unary call.
	response(h *http2Caller, r *client.Request, x *http2calls.Exchange) error
	// check returns why the header of a unary call's response is no good one, or nil.
	check(head *http2.Block, codec string) error
	// begin checks the header of a stream's response, and returns how messages are compressed.
	begin(head *http2.Block, codec string) (encoding string, err error)
	// message takes a message of a stream's response. The error says how the stream has ended; it is
	// io.EOF if without an error.
	message(m *http2Messages, flags byte, message []byte) ([]byte, error)
	// end returns how a stream has ended whose response has come to its end.
	end(call *tandem.Call, head, trailer *http2.Block) error
}

// grpcDialect is gRPC.
type grpcDialect struct{}

func (grpcDialect) needsHTTP2() bool { return true }

func (grpcDialect) agent() string { return "grpc-go-tandem" }

func (grpcDialect) header(to []http2.Field, call *tandem.Call, _ bool) []http2.Field {
	kind := "application/grpc+proto"
	if call.Codec == "json" {
		kind = "application/grpc+json"
	}
	to = append(to, http2.Field{Name: "content-type", Value: kind}, http2.Field{Name: "te", Value: "trailers"},
		http2.Field{Name: "grpc-accept-encoding", Value: "gzip"})
	if !call.Deadline.IsZero() {
		var text [16]byte
		timeout := appendTimeout(text[:0], time.Until(call.Deadline))
		to = append(to, http2.Field{Name: "grpc-timeout", Value: string(timeout), Sensitive: true}) // no other call has the same
	}
	return to
}

func (grpcDialect) request(x *http2calls.Exchange, message []byte, limit int) {
	x.Envelope, x.MaxBody = true, limit+envelopeLen
	x.Body = appendEnvelope(x.Body[:0], message)
}

func (grpcDialect) skim(b *http2.Block, trailer bool) bool {
	for i := range b.Fields {
		switch f := &b.Fields[i]; f.Name {
		case "content-type":
			if f.Value != "application/grpc" && f.Value != "application/grpc+proto" {
				return false
			}
		case "grpc-status":
			if f.Value != "0" {
				return false
			}
			trailer = false
		case "grpc-message":
			if f.Value != "" {
				return false
			}
		case "date", "grpc-accept-encoding":
		default:
			return false
		}
	}
	return !trailer && (b.Status == 0 || b.Status == http.StatusOK)
}

// response takes the response of a unary call.
func (grpcDialect) response(h *http2Caller, r *client.Request, x *http2calls.Exchange) error {
	encoding, err := grpcHead(x.Head, r.Call.Codec)
	if err != nil {
		return err
	}
	if x.Head != nil || x.Trailer != nil {
		if err := grpcEnd(r.Call, x.Head, x.Trailer, x.Fine); err != nil {
			return err
		}
	} else if !x.Fine {
		return withoutStatus()
	}
	message, rest, flags, err := cutEnvelope(x.Response)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return tandem.Errorf(tandem.Unimplemented, "the response of a unary call has several messages")
	}
	r.Reply, err = h.unpack(message, flags, encoding)
	return err
}

func withoutStatus() error {
	return &tandem.Error{Code: tandem.Internal, Message: "the response has no grpc-status"}
}

func (grpcDialect) check(head *http2.Block, codec string) error {
	_, err := grpcHead(head, codec)
	return err
}

func (grpcDialect) begin(head *http2.Block, codec string) (encoding string, err error) {
	return grpcHead(head, codec)
}

func (grpcDialect) message(m *http2Messages, flags byte, message []byte) ([]byte, error) {
	return m.caller.unpack(message, flags, m.encoding)
}

func (grpcDialect) end(call *tandem.Call, head, trailer *http2.Block) error {
	if err := grpcEnd(call, head, trailer, false); err != nil {
		return err
	}
	return io.EOF
}

// grpcHead checks the header of a response, nil if it says nothing. It returns how messages are
// compressed.
func grpcHead(head *http2.Block, codec string) (encoding string, err error) {
	if head == nil {
		return "", nil
	}
	if head.Status != http.StatusOK {
		return "", statusError(head.Status)
	}
	kind := fieldOf(head, "content-type")
	want := "application/grpc+proto"
	if codec == "json" {
		want = "application/grpc+json"
	}
	if kind != want && (codec == "json" || kind != "application/grpc") {
		return "", wrongType(kind, want)
	}
	return encodingOf(head, "grpc-encoding")
}

func wrongType(kind, want string) error {
	return tandem.Errorf(tandem.Internal, "the response's content-type is %.80q, expected %q", kind, want)
}

// encodingOf returns how messages are compressed, which must be in a way that the request allows.
func encodingOf(head *http2.Block, name string) (encoding string, err error) {
	encoding = fieldOf(head, name)
	if encoding != "" && encoding != "identity" && encoding != "gzip" {
		return "", tandem.Errorf(tandem.Internal, "the response is compressed with %.40q, which was not asked for", encoding)
	}
	return encoding, nil
}

// statusError returns the error of a response with a status of HTTP that is not 200.
func statusError(status int) error {
	text := strconv.Itoa(status) + " " + http.StatusText(status)
	if status == http.StatusRequestHeaderFieldsTooLarge {
		return &tandem.Error{Code: tandem.ResourceExhausted, Remote: true, NotExecuted: true, Message: http2calls.ErrHeaderTooLarge.Error()}
	}
	code := codeOfStatus(status)
	if code == tandem.Unknown {
		code = tandem.Internal // the response is not one of the protocol
	}
	return &tandem.Error{Code: code, Message: "HTTP status " + text}
}

// codeOfStatus returns the code for a status of HTTP, as gRPC maps it.
func codeOfStatus(status int) tandem.Code {
	switch status {
	case http.StatusBadRequest:
		return tandem.Internal
	case http.StatusUnauthorized:
		return tandem.Unauthenticated
	case http.StatusForbidden:
		return tandem.PermissionDenied
	case http.StatusNotFound:
		return tandem.Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return tandem.Unavailable
	default:
		return tandem.Unknown
	}
}

// grpcEnd takes how a call has ended, and its metadata. fine says that the trailer, if it is nil, says
// nothing but success.
func grpcEnd(call *tandem.Call, head, trailer *http2.Block, fine bool) error {
	last := trailer
	if last == nil && !fine {
		last = head // a response without messages may have everything in one header
	}
	header := headerOf(head, trailer)
	md := Metadata(header)
	if last == nil {
		call.Trailer = md
		return nil
	}
	err := grpcStatus(last)
	if err == nil {
		call.Trailer = md
		return nil
	}
	if e, ok := errors.AsType[*tandem.Error](err); ok && e.Remote {
		readRetryFields(header, e)
	}
	if len(md) > 0 {
		call.Trailer = md
	}
	return err
}

// grpcStatus returns the error that a trailer says, nil for success.
func grpcStatus(b *http2.Block) error {
	status := fieldOf(b, "grpc-status")
	switch status {
	case "0":
		return nil
	case "":
		return withoutStatus()
	}
	code, err := strconv.ParseUint(status, 10, 32)
	if err != nil {
		return tandem.Errorf(tandem.Internal, "the response's grpc-status is %.40q", status)
	}
	message, ok := percentDecode(fieldOf(b, "grpc-message"))
	if !ok {
		return tandem.Errorf(tandem.Internal, "the response's grpc-message is not encoded as it should be: %.200q", message)
	}
	e := &tandem.Error{Code: remoteCode(code), Message: message, Remote: true}
	details := fieldOf(b, "grpc-status-details-bin")
	if details == "" {
		return e
	}
	packed, err := connect.DecodeBinaryHeader(details)
	if err != nil || !parseStatus(packed, e) {
		return tandem.Errorf(tandem.Internal, "the response's grpc-status-details-bin can't be decoded")
	}
	return e
}

// remoteCode returns the code that a server has sent; what is no error code becomes Unknown.
func remoteCode(code uint64) tandem.Code {
	if code >= uint64(tandem.Canceled) && code <= uint64(tandem.Unauthenticated) {
		return tandem.Code(code)
	}
	return tandem.Unknown
}

// parseStatus parses a google.rpc.Status into an error.
func parseStatus(b []byte, e *tandem.Error) bool {
	e.Code, e.Message = tandem.Unknown, ""
	return eachField(b, func(number protowire.Number, n uint64, value []byte) bool {
		switch number {
		case 1:
			e.Code = remoteCode(n)
		case 2:
			e.Message = string(value)
		case 3:
			var d tandem.Detail
			ok := eachField(value, func(number protowire.Number, _ uint64, value []byte) bool {
				switch number {
				case 1:
					d.Type = string(value[bytes.LastIndexByte(value, '/')+1:])
				case 2:
					d.Value = append([]byte(nil), value...)
				}
				return true
			})
			e.Details = append(e.Details, d)
			return ok
		}
		return true
	})
}

// eachField calls f with the fields of a message of Protocol Buffers that are numbers or bytes. It
// reports whether the message is well formed and all calls have returned true.
func eachField(b []byte, f func(number protowire.Number, n uint64, value []byte) bool) bool {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return false
		}
		b = b[size:]
		var n uint64
		var value []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(number, kind, b)
		}
		if size < 0 || !f(number, n, value) {
			return false
		}
		b = b[size:]
	}
	return true
}

// percentDecode decodes gRPC's grpc-message.
func percentDecode(text string) (string, bool) {
	if !strings.Contains(text, "%") {
		return text, true
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b = append(b, text[i])
			continue
		}
		if len(text)-i < 3 {
			return text, false
		}
		c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return text, false
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b), true
}

// fieldOf returns the first field of that name, "" if there is none.
func fieldOf(b *http2.Block, name string) string {
	for i := range b.Fields {
		if b.Fields[i].Name == name {
			return b.Fields[i].Value
		}
	}
	return ""
}

// headerOf returns the fields of blocks, which may be nil.
func headerOf(blocks ...*http2.Block) http.Header {
	h := http.Header{}
	for _, b := range blocks {
		if b == nil {
			continue
		}
		for _, f := range b.Fields {
			h.Add(f.Name, f.Value)
		}
	}
	return h
}

// Flags of an envelope.
const (
	flagCompressed = 1
	flagEnd        = 2 // Connect's, for the message that ends a stream
)

// cutEnvelope returns the only message of a response, and what follows it.
func cutEnvelope(b []byte) (message, rest []byte, flags byte, err error) {
	if len(b) == 0 {
		return nil, nil, 0, tandem.Errorf(tandem.Unimplemented, "the response of a unary call has no message")
	}
	if len(b) < envelopeLen || int64(len(b)-envelopeLen) < int64(binary.BigEndian.Uint32(b[1:])) {
		return nil, nil, 0, tandem.Errorf(tandem.Internal, "the response ends in the middle of a message")
	}
	end := envelopeLen + int(binary.BigEndian.Uint32(b[1:]))
	return b[envelopeLen:end:end], b[end:], b[0], nil
}

// unpack decompresses a message if its flags say so.
func (h *http2Caller) unpack(message []byte, flags byte, encoding string) ([]byte, error) {
	switch {
	case flags == 0:
		return message, nil
	case flags != flagCompressed:
		return nil, tandem.Errorf(tandem.Internal, "a message of the response has the flags %#x", flags)
	case encoding != "gzip":
		return nil, tandem.Errorf(tandem.Internal, "a message of the response is compressed, and its header does not say how")
	}
	return h.decompress(message)
}

func (h *http2Caller) decompress(message []byte) ([]byte, error) {
	if len(message) == 0 {
		return nil, nil
	}
	plain, err := h.gzip.Decompress(nil, message, h.remote.MaxMessage)
	switch {
	case errors.Is(err, compress.ErrTooLarge):
		return nil, tooLarge(h.remote.MaxMessage)
	case err != nil:
		return nil, tandem.Errorf(tandem.Internal, "a message of the response can't be decompressed: %w", err)
	}
	return plain, nil
}
