package web

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/internal/http2calls"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
	"github.com/tandem-rpc/tandem/transport"
)

// Bounds of the connections to a server.
const (
	maxCallConns   = 16      // for unary calls, which wait for each other beyond that
	maxStreamConns = 1 << 16 // streams last, and do not wait for each other

	// writeStall is how long a server may read nothing, or take to answer a PING.
	writeStall = 20 * time.Second
)

// http2Caller makes calls to one server over HTTP/2.
type http2Caller struct {
	*http2calls.Conns // for unary calls
	*clientProtocol

	streams *http2calls.Conns
	remote  *client.Remote
	fields  [4]http2.Field // of each request
	gzip    tandem.Compressor
	paths   pathCache
}

// connectHTTP2 begins HTTP/2 on a connection that has been made.
func connectHTTP2(ctx context.Context, c *clientProtocol, r *client.Remote, first net.Conn) (client.Carrier, error) {
	h := newHTTP2Caller(c, r, schemeOf(first))
	if _, err := h.Add(ctx, first); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// schemeOf returns the scheme of requests on a connection.
func schemeOf(c net.Conn) string {
	if transport.TLSState(c) != nil {
		return "https"
	}
	return "http"
}

// newHTTP2Caller returns a caller without connections.
func newHTTP2Caller(c *clientProtocol, r *client.Remote, scheme string) *http2Caller {
	return &http2Caller{
		clientProtocol: c, remote: r, gzip: compress.Gzip(),
		Conns:   http2calls.NewConns(http2calls.Config{Stall: writeStall, Skim: c.dialect.skim}, maxCallConns, r.Dial),
		streams: http2calls.NewConns(http2calls.Config{Stall: writeStall, Window: max(r.StreamWindow, 1), Lasting: true}, maxStreamConns, r.Dial),
		fields: [4]http2.Field{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: scheme},
			{Name: ":authority", Value: httpcalls.Host(r.Endpoint.Address)}, {Name: "user-agent", Value: c.dialect.agent()},
		},
	}
}

// Close ends all connections.
func (h *http2Caller) Close() error { return errors.Join(h.streams.Close(), h.Conns.Close()) }

// Carry makes a call.
func (h *http2Caller) Carry(ctx context.Context, r *client.Request) error {
	argument, err := r.Argument()
	if err != nil {
		return err
	}
	if err := httpcalls.Check(r.Call.Metadata, true); err != nil {
		return err
	}
	x := h.Exchange()
	defer x.Release()
	x.Header = h.header(x.Header, r.Call, true)
	x.Keep = r.Call.Codec == "json"
	h.dialect.request(x, argument, h.remote.MaxMessage)
	if err = h.Do(ctx, x); err != nil {
		err = h.failed(ctx, err)
	} else {
		reportBlock(ctx, x.Head)
	}
	if err != nil && x.Head != nil && tandem.CodeOf(err) == tandem.ResourceExhausted {
		if bad := h.dialect.check(x.Head, r.Call.Codec); bad != nil {
			return bad // what looks too large is no message
		}
	}
	if err != nil {
		return err
	}
	return h.dialect.response(h, r, x)
}

// header appends the header of a request.
func (h *http2Caller) header(to []http2.Field, call *tandem.Call, unary bool) []http2.Field {
	to = append(to, h.fields[:]...)
	to = append(to, http2.Field{Name: ":path", Value: h.paths.of(call.Method)})
	to[3], to[4] = to[4], to[3] // fields of HTTP come first
	to = h.dialect.header(to, call, unary)
	for name, values := range call.Metadata {
		to = appendMetadata(to, name, values)
	}
	return to
}

// appendMetadata appends metadata to a header.
func appendMetadata(to []http2.Field, name string, values []string) []http2.Field {
	key := strings.ToLower(name)
	for _, v := range values {
		if strings.HasSuffix(key, httpcalls.Binary) {
			v = connect.EncodeBinaryHeader([]byte(v))
		}
		to = append(to, http2.Field{Name: key, Value: strings.Trim(v, " \t"), Sensitive: changes(key)})
	}
	return to
}

// changes reports whether a field has another value with every call, so that the table of the header's
// compression should not keep it.
func changes(name string) bool {
	switch name {
	case "traceparent", "tracestate", "grpc-trace-bin", "x-request-id", "request-id", "baggage":
		return true
	}
	return false
}

// pathCache has the paths of methods. The zero value is empty.
type pathCache struct {
	last  atomic.Pointer[methodPath]
	paths sync.Map // of methods
	size  atomic.Int32
}

// maxPaths is how many paths are kept.
const maxPaths = 4096

func (p *pathCache) of(method string) string {
	last := p.last.Load()
	if last != nil && last.method == method {
		return last.path
	}
	if known, ok := p.paths.Load(method); ok {
		last = known.(*methodPath) //nolint:forcetypeassert // there are no others
		p.last.Store(last)
		return last.path
	}
	path := pathOf(method)
	if p.size.Load() < maxPaths {
		p.size.Add(1)
		method = strings.Clone(method)
		p.paths.Store(method, &methodPath{method, path})
	}
	return path
}

type methodPath struct{ method, path string }

// appendTimeout appends the time that a call has left as gRPC's grpc-timeout: at most eight digits and
// a unit. It rounds up, so that the call does not end at the server before it does here.
func appendTimeout(b []byte, left time.Duration) []byte {
	const most = 1e8 - 1
	for _, unit := range [...]struct {
		is   time.Duration
		name byte
	}{{time.Microsecond, 'u'}, {time.Millisecond, 'm'}, {time.Second, 'S'}} {
		if n := (max(left, 1)-1)/unit.is + 1; n <= most {
			return append(strconv.AppendInt(b, int64(n), 10), unit.name)
		}
	}
	return append(strconv.AppendInt(b, int64(left/time.Hour)+1, 10), 'H')
}

// appendEnvelope appends a message after five bytes with its length.
func appendEnvelope(b []byte, message []byte) []byte {
	b = append(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(message))) //nolint:gosec // messages are smaller than 4 GiB
	return append(b, message...)
}

// failed converts the error of a call that has no response.
func (h *http2Caller) failed(ctx context.Context, err error) error {
	failed, ok := errors.AsType[*http2calls.FailedError](err)
	switch {
	case ok && failed.Reset && failed.Code == http2.Cancel && isPast(ctx): // the server's clock was quicker
		return &tandem.Error{Code: tandem.DeadlineExceeded, Message: noAnswer}
	case ok:
		return transportError(failed)
	case errors.Is(err, http2calls.ErrTooLarge):
		return tooLarge(h.remote.MaxMessage)
	case errors.Is(err, http2calls.ErrHeaderTooLarge):
		return &tandem.Error{Code: tandem.ResourceExhausted, NotExecuted: true, Message: err.Error()}
	}
	return &tandem.Error{Code: tandem.ResourceExhausted, Message: err.Error()}
}

const noAnswer = "no answer within the deadline"

func isPast(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ok && !time.Now().Before(d)
}

func tooLarge(limit int) error {
	return tandem.Errorf(tandem.ResourceExhausted, "the response has a message larger than %d bytes: raise the limit with WithMaxMessage", limit)
}

// transportError converts the error of a connection or stream.
func transportError(failed *http2calls.FailedError) error {
	e := *tandem.AsError(failed.Err)
	switch {
	case errors.Is(failed.Err, context.DeadlineExceeded):
		e.Code, e.Message = tandem.DeadlineExceeded, noAnswer
	case errors.Is(failed.Err, context.Canceled):
		e.Code, e.Message = tandem.Canceled, "call canceled by the caller"
	case failed.Reset:
		e.Code, e.Message = resetCode(failed.Code), failed.Error()
	case failed.Answered:
		e = *tandem.Errorf(tandem.Unavailable, "the connection was lost before the end of the answer: %w", failed.Err)
	case e.Code == tandem.Unknown:
		e = *tandem.Errorf(tandem.Unavailable, "%w", failed.Err)
	}
	e.NotExecuted = failed.NotExecuted
	return &e
}

// resetCode returns the code of a stream that the server has reset, as gRPC maps it.
func resetCode(code http2.Code) tandem.Code {
	switch code {
	case http2.RefusedStream:
		return tandem.Unavailable
	case http2.Cancel:
		return tandem.Canceled
	case http2.EnhanceYourCalm:
		return tandem.ResourceExhausted
	case http2.InadequateSecurity:
		return tandem.PermissionDenied
	default:
		return tandem.Internal
	}
}

// Ping calls a method that no server has; any response counts as success.
func (h *http2Caller) Ping(ctx context.Context) error {
	x := h.Exchange()
	defer x.Release()
	x.Header = h.header(x.Header, &tandem.Call{Method: "rpc.ping"}, true)
	h.dialect.request(x, nil, h.remote.MaxMessage)
	if err := h.Do(ctx, x); err != nil && !x.Answered() {
		return h.failed(ctx, err)
	}
	return nil
}
