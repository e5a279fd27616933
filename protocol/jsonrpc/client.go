package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/multiplex"
)

// Client returns the protocol for [client.WithProtocols] that calls JSON-RPC servers over
// TCP or TLS, at targets jsonrpc://host:port; each request is a line.
//
// Arguments that are one object, or one array, are sent as the params, by name or by
// position; others are put into an array, and with [ByPosition] all are. A one-way call is
// a notification. JSON-RPC has no metadata, and deadlines apply at the client only. The
// codec is JSON.
//
// Errors of the specification are mapped to a [tandem.Code]; those of tandem's servers keep
// their code, and all others are Unknown. The received error object is a detail of the type
// [ErrorObject].
func Client(opts ...ClientOption) client.Protocol {
	return &outward{name: "jsonrpc", dialect: newDialect(opts)}
}

// ClientOption changes what [Client] and [HTTPClient] return.
type ClientOption func(*dialect)

// ByPosition sends the argument of every call as the only element of an array, also if it
// is an object: for servers that accept parameters by position only.
func ByPosition() ClientOption { return func(d *dialect) { d.byPosition = true } }

// Version1 selects version 1.0, for servers of Go's net/rpc/jsonrpc. Its parameters are by
// position.
func Version1() ClientOption { return func(d *dialect) { d.old, d.byPosition = true, true } }

// ErrorObject is the type of the [tandem.Detail] that holds a server's error object, in
// JSON.
const ErrorObject = "jsonrpc.error"

// dialect is the form of requests.
type dialect struct {
	json       tandem.Codec
	old        bool // version 1.0
	byPosition bool
}

func newDialect(opts []ClientOption) *dialect {
	d := &dialect{json: codec.JSON()}
	for _, o := range opts {
		o(d)
	}
	return d
}

// outward is the client's protocol over TCP.
type outward struct {
	*dialect

	name string
}

func (o *outward) Name() string { return o.name }

// NoMetadata marks JSON-RPC over TCP as a protocol without metadata.
func (*outward) NoMetadata() {}

// NoStreams marks JSON-RPC as a protocol without streams.
func (*dialect) NoStreams() {}

// Codecs returns the JSON codec.
func (d *dialect) Codecs() []tandem.Codec { return []tandem.Codec{d.json} }

// Connect connects to a server.
func (o *outward) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	nc, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	in := multiplex.NewReader(nc)
	a := &answers{in: reader{r: bufio.NewReaderSize(in, readBuffer), midway: in.Midway}, limit: r.MaxMessage}
	return &carrier{multiplex.New(nc, a.next), o.dialect}, nil
}

// answer is a server's response to a request.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Method json.RawMessage `json:"method"` // present if the message is a request
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// answers reads responses.
type answers struct {
	in    reader
	limit int
}

// answerRoom is the limit of a response without its result, in bytes.
const answerRoom = 4 << 10

// next returns the next response. Requests of the server are skipped, and so are responses to
// no request of ours. A response that is not JSON, or is too large, ends the connection, and
// so does a response to a request that the server could not read: the call that it belongs to
// is known only if a single call waits.
func (a *answers) next() (uint64, answer, error) {
	for {
		message, err := a.in.next(a.limit + answerRoom)
		if errors.Is(err, errTooLarge) {
			return 0, answer{}, &tandem.Error{
				Code:    tandem.ResourceExhausted,
				Message: fmt.Sprintf("a response of more than %d bytes: raise the limit with WithMaxMessage", a.limit),
			}
		}
		if err != nil {
			return 0, answer{}, fmt.Errorf("reading an answer: %w", err)
		}
		var got answer
		if err := json.Unmarshal(message, &got); err != nil {
			return 0, answer{}, fmt.Errorf("decoding an answer: %w", err)
		}
		seq, err := strconv.ParseUint(string(got.ID), 10, 64)
		switch {
		case err == nil && got.Method == nil:
			return seq, got, nil
		case got.Method == nil && isError(got.Error) && (got.ID == nil || isNull(got.ID)):
			return 0, answer{}, errorFrom(got.Error) // the server could not tell whose request it was
		}
	}
}

func isError(v json.RawMessage) bool { return v != nil && !isNull(v) }

// carrier is a connection to a server.
type carrier struct {
	*multiplex.Conn[answer]
	*dialect
}

// Carry makes a call.
func (c *carrier) Carry(ctx context.Context, r *client.Request) error {
	params, err := c.params(r)
	if err != nil {
		return err
	}
	fill := func(dst []byte, seq uint64) ([]byte, error) {
		return append(c.appendRequest(dst, r.Call, params, seq), '\n'), nil
	}
	if r.Call.Kind == tandem.OneWay {
		return c.Send(ctx, fill)
	}
	got, err := c.Do(ctx, fill)
	if err != nil {
		return err
	}
	return got.take(r)
}

// Ping calls a method that no server has: the specification reserves names that begin so.
func (c *carrier) Ping(ctx context.Context) error {
	_, err := c.Do(ctx, func(dst []byte, seq uint64) ([]byte, error) {
		return append(c.appendRequest(dst, &tandem.Call{Method: pingMethod}, []byte("[]"), seq), '\n'), nil
	})
	return err
}

const pingMethod = "rpc.ping"

// params returns the params of a request; nil for none.
func (d *dialect) params(r *client.Request) ([]byte, error) {
	list, err := r.Arguments()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if len(list[i]) == 0 { // package codec encodes nil as no bytes
			list[i] = []byte("null")
		}
	}
	if !r.Several && len(list) == 1 && !d.byPosition && (list[0][0] == '{' || list[0][0] == '[') {
		return list[0], nil
	}
	if len(list) == 0 && !d.old {
		return nil, nil
	}
	if len(list) == 0 {
		return []byte("[null]"), nil // net/rpc's servers require one
	}
	return append(append([]byte{'['}, bytes.Join(list, []byte{','})...), ']'), nil
}

// appendRequest appends a request to dst.
func (d *dialect) appendRequest(dst []byte, call *tandem.Call, params []byte, seq uint64) []byte {
	dst = append(dst, '{')
	if !d.old {
		dst = append(dst, `"jsonrpc":"2.0",`...)
	}
	dst = append(dst, `"method":`...)
	dst = append(dst, encode(call.Method)...)
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	switch {
	case call.Kind != tandem.OneWay:
		dst = strconv.AppendUint(append(dst, `,"id":`...), seq, 10)
	case d.old:
		dst = append(dst, `,"id":null`...)
	}
	return append(dst, '}')
}

// take sets the result of the call.
func (a *answer) take(r *client.Request) error {
	switch {
	case isError(a.Error):
		return errorFrom(a.Error)
	case len(a.Result) > 0 && !isNull(a.Result):
		r.Reply = a.Result
	}
	return nil
}

// errorFrom converts an error that a server sent.
func errorFrom(said json.RawMessage) *tandem.Error {
	e := &tandem.Error{Code: tandem.Unknown, Remote: true, Details: []tandem.Detail{{Type: ErrorObject, Value: said}}}
	if json.Unmarshal(said, &e.Message) == nil { // version 1.0's are strings
		return e
	}
	var object struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(said, &object); err != nil {
		e.Message = string(said)
		return e
	}
	var data string
	_ = json.Unmarshal(object.Data, &data) // only text is added to the message
	e.Code, e.Message = codeFrom(object.Code, data), object.Message
	if object.Code <= serverError && object.Code > serverError-100 && e.Code != tandem.Unknown {
		return e // its data is the name of the code
	}
	if data != "" {
		e.Message += ": " + data
	}
	return e
}

// codeFrom returns the code of an error: of the specification's, and of those of tandem's
// servers, whose data is the code's name.
func codeFrom(code int, data string) tandem.Code {
	switch code {
	case methodNotFound:
		return tandem.Unimplemented
	case invalidParams, invalidRequest, parseFailed:
		return tandem.InvalidArgument
	case internalError:
		return tandem.Internal
	}
	if ours := serverError - code; ours > 0 && ours <= int(tandem.Unauthenticated) && tandem.Code(ours).String() == data {
		return tandem.Code(ours)
	}
	return tandem.Unknown
}
