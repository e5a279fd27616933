package web

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
	"github.com/tandem-rpc/tandem/internal/lazyctx"
	"github.com/tandem-rpc/tandem/server"
)

// quickCall is a unary call over gRPC whose request has come whole, in one frame. It needs neither an
// [http.Request] nor connect, and no goroutine but the call's. Everything else goes the long way, as
// does what has to be refused.
//
// It is the context of the call, which ends when the stream is reset.
type quickCall struct {
	lazyctx.Context

	h       *http2Conn
	st      *http2.Stream
	head    *http2.Block
	call    tandem.Call
	codec   tandem.Codec
	kind    string // Content-Type of the request, and of the response
	message []byte
	memory  *server.Reservation
	reply   []byte
	gzip    bool // the client takes compressed messages

	mu  sync.Mutex    // guards what follows, and head, which is nil when the call has ended
	own http.Header   // see [Header]; nil until it is asked for
	req *http.Request // see [Request]; nil until it is asked for
}

// quick returns the call of a request, whose header is in ev, if it can be made the quick way. body
// is its only frame.
func (h *http2Conn) quick(ev *http2.Event, body []byte) *quickCall {
	b := ev.Block
	if b.Method != http.MethodPost || b.TooLarge || h.hosts != nil && (!h.defaultHosts || h.Peer().TLS != nil) ||
		len(body) < envelopeLen || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-envelopeLen {
		return nil
	}
	m := h.p.quickMethod(h.Conn, b.Path)
	if m == nil || len(body)-envelopeLen > m.MaxMessage {
		return nil
	}
	q := &quickCall{h: h, st: ev.Stream, head: b, call: tandem.Call{Method: methodOf(b.Path), Idempotent: m.Safe, Peer: h.peer}}
	timeout, ok := q.readHeader(b)
	if !ok {
		return nil
	}
	q.Init(h.ctx, time.Time{})
	ev.Stream.Owner = q
	q.message = append([]byte(nil), body[envelopeLen:]...)
	q.call.Codec, q.call.Body = q.codec.Name(), q
	if timeout > 0 {
		q.call.Deadline = time.Now().Add(timeout)
	}
	return q
}

// quickMethod returns the unary method that requests for a path call, or nil if there is none, or if
// another handler may get them.
func (p *protocol) quickMethod(c *server.Conn, path string) *server.Method {
	if !p.quick || !plainPath(path) {
		return nil
	}
	m := c.Method(methodOf(path))
	if m == nil || m.Kind == tandem.Streaming {
		return nil
	}
	if len(p.opts.mounts) == 0 {
		return m
	}
	_, pattern := p.mux.Handler(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}})
	if pattern != "/" {
		return nil
	}
	return m
}

// mayBeQuick reports whether the quick way leads to the same handler for all hosts, and without CORS.
func mayBeQuick(o *options) bool {
	return o.cors == nil && !slices.ContainsFunc(o.mounts, func(m mount) bool {
		_, path, found := strings.Cut(m.pattern, " ")
		if !found {
			path = m.pattern
		}
		return !strings.HasPrefix(strings.TrimSpace(path), "/")
	})
}

const envelopeLen = 5

// plainPath reports whether a path is one of a method, without anything to decode or to object to.
func plainPath(path string) bool {
	for i := range len(path) {
		if c := path[i]; !unreserved(c) && c != '/' {
			return false
		}
	}
	return !strings.Contains(path, "//") && !strings.Contains(path+"/", "/./") && !strings.Contains(path+"/", "/../")
}

// readHeader takes what the header says; ok is false if the request must go the long way.
func (q *quickCall) readHeader(b *http2.Block) (timeout time.Duration, ok bool) {
	var md tandem.Metadata
	authorized := false
	for _, f := range b.Fields {
		switch f.Name {
		case "content-type":
			switch q.kind = f.Value; f.Value {
			case "application/grpc", "application/grpc+proto":
				q.codec = q.h.p.gateway.codecs["proto"]
			case "application/grpc+json":
				q.codec = q.h.p.gateway.codecs["json"]
			}
		case "grpc-timeout":
			if timeout, ok = parseTimeout(f.Value); !ok {
				return 0, false
			}
		case "grpc-accept-encoding":
			q.gzip = slices.Contains(strings.FieldsFunc(f.Value, func(c rune) bool { return c == ',' || c == ' ' }), "gzip")
		case "grpc-encoding":
			if f.Value != "identity" && f.Value != "gzip" {
				return 0, false
			}
		case "expect", "content-length", "trailer":
			return 0, false
		case "authorization":
			if authorized {
				return 0, false
			}
			authorized = true
		}
		md = addField(md, f)
	}
	q.call.Metadata = md
	return timeout, q.codec != nil
}

// addField adds a field of a header to metadata, as [Metadata] does, and returns that.
func addField(md tandem.Metadata, f http2.Field) tandem.Metadata {
	if httpcalls.IsOwn(f.Name) || httpcalls.IsReserved(f.Name) {
		return md
	}
	if md == nil {
		md = tandem.Metadata{}
	}
	values := []string{f.Value}
	if strings.HasSuffix(f.Name, httpcalls.Binary) {
		values = decodeBinary(values)
	}
	md[f.Name] = append(md[f.Name], values...)
	return md
}

// parseTimeout reads the field grpc-timeout: at most eight digits and a unit.
func parseTimeout(text string) (time.Duration, bool) {
	if len(text) < 2 || len(text) > 9 {
		return 0, false
	}
	unit := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 31)
	if unit == 0 || err != nil || n == 0 {
		return 0, false
	}
	if float64(n)*float64(unit) > float64(maxTimeout) {
		return 0, true // connect ignores such a time, too
	}
	return unit * time.Duration(n), true
}

const maxTimeout = time.Duration(1<<63 - 1)

// run makes the call, and reports whether the calling goroutine still reads the connection; if not,
// takeOver has been called in the one that does.
func (q *quickCall) run(takeOver func()) (reads bool) {
	q.h.noteRequest()
	q.memory = q.h.Reserve(q).For(&q.call)
	return q.h.Conn.GoHere(q, &q.call, q.end, takeOver)
}

// Value returns what package web looks up for a handler.
func (q *quickCall) Value(key any) any {
	if key == (exchangeKey{}) {
		return q
	}
	return q.Context.Value(key)
}

// Decode decodes the request.
func (q *quickCall) Decode(v any) error {
	return decode(q.memory.Codec(q.codec, q.message), q.message, v)
}

// Encode encodes the response.
func (q *quickCall) Encode(v any) error {
	b, err := encode(q.codec, v)
	q.reply = b
	return err
}

// Stream returns nil: the call is unary.
func (*quickCall) Stream() tandem.MessageStream { return nil }

// end answers the call. The answers of calls that the reader has made are written together.
func (q *quickCall) end(here bool, err error) {
	h := q.h
	var room [4]http2.Field
	head, body := q.header(room[:0]), []byte(nil)
	if err == nil {
		head, body = q.envelope(head)
	}
	trailer := q.trailer(err)
	q.memory.Release()
	used := q.giveUpHead()
	h.machine.Lock()
	if err != nil {
		h.m.Header(q.st, append(head, trailer...), true)
	} else {
		h.m.Header(q.st, head, false)
		if h.m.Finish(q.st, body, trailer); !q.st.Sent() {
			q.limitLocked(time.Duration(1 + len(body)/answerPiece))
		}
	}
	if h.err == nil {
		h.m.Free(used)
	}
	h.m.Done(q.st)
	h.used = time.Now()
	h.machine.Unlock()
	q.Cancel()
	if !here {
		runtime.Gosched() // the calls that came with this one may end, and be answered in the same write
		h.flush()
		h.endIfDone()
	}
}

// limitLocked limits the time for a response that the client's window does not take at once.
func (q *quickCall) limitLocked(pieces time.Duration) {
	s := &http2Stream{h: q.h, st: q.st, ended: true, ctx: q, cancel: q.Cancel}
	s.changed.L = &q.h.machine
	q.st.Owner = s
	s.limitLocked(time.Now().Add(pieces * q.h.StallTimeout()))
}

// giveUpHead returns the header of the request, which [Request] does not use any more.
func (q *quickCall) giveUpHead() *http2.Block {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.head
	q.head = nil
	return b
}

// envelope returns the message of the response, compressed if that is worth it and the client takes
// it, with the header that says so.
func (q *quickCall) envelope(head []http2.Field) ([]http2.Field, []byte) {
	reply, flag := q.reply, byte(0)
	if q.gzip && len(reply) >= compressAbove {
		if packed, err := q.h.p.gateway.gzip.Compress(nil, reply); err == nil {
			reply, flag = packed, 1
			head = append(head, http2.Field{Name: "grpc-encoding", Value: "gzip"})
		}
	}
	b := make([]byte, envelopeLen, envelopeLen+len(reply))
	b[0] = flag
	binary.BigEndian.PutUint32(b[1:], uint32(len(reply))) //nolint:gosec // messages are smaller than 4 GiB
	return head, append(b, reply...)
}

// header appends the header of the response.
func (q *quickCall) header(to []http2.Field) []http2.Field {
	to = append(to, http2.Field{Name: ":status", Value: "200"}, http2.Field{Name: "content-type", Value: q.kind},
		http2.Field{Name: "grpc-accept-encoding", Value: "gzip"})
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.own != nil {
		own := http.Header{}
		addHeader(own, q.own)
		to = appendFields(to, own)
	}
	return to
}

// succeeded is the trailer of most calls.
var succeeded = []http2.Field{{Name: "grpc-status", Value: "0"}} //nolint:gochecknoglobals // never changed

// trailer returns the trailer of the response.
func (q *quickCall) trailer(err error) []http2.Field {
	if err == nil && len(q.call.Trailer) == 0 {
		return succeeded
	}
	fields := http.Header{}
	addMetadata(fields, q.call.Trailer)
	status := http2.Field{Name: "grpc-status", Value: "0"}
	if err != nil {
		setRetryFields(fields, err)
		e := tandem.AsError(err)
		status.Value = strconv.FormatUint(uint64(toConnect(e).Code()), 10)
		fields.Set("Grpc-Message", percentEncode(e.Message))
		if len(e.Details) > 0 {
			fields.Set("Grpc-Status-Details-Bin", connect.EncodeBinaryHeader(statusOf(e)))
		}
	}
	return appendFields([]http2.Field{status}, fields)
}

// appendFields appends a header or trailer, whose fields rarely come again with the same values.
func appendFields(to []http2.Field, h http.Header) []http2.Field {
	start := len(to)
	for key, values := range h {
		for _, value := range values {
			if name := strings.ToLower(key); http2.ValidField(name, value) {
				to = append(to, http2.Field{Name: name, Value: value, Sensitive: true})
			}
		}
	}
	slices.SortStableFunc(to[start:], func(a, b http2.Field) int { return strings.Compare(a.Name, b.Name) })
	return to
}

// statusOf encodes a google.rpc.Status.
func statusOf(e *tandem.Error) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(toConnect(e).Code()))
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), e.Message)
	for _, d := range e.Details {
		kind := d.Type
		if !strings.Contains(kind, "/") {
			kind = typePrefix + kind
		}
		detail := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), kind)
		detail = protowire.AppendBytes(protowire.AppendTag(detail, 2, protowire.BytesType), d.Value)
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), detail)
	}
	return b
}

// percentEncode encodes the text of an error as gRPC's grpc-message.
func percentEncode(text string) string {
	plain := func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }
	i := 0
	for i < len(text) && plain(text[i]) {
		i++
	}
	if i == len(text) {
		return text
	}
	b := []byte(text[:i])
	for ; i < len(text); i++ {
		if c := text[i]; plain(c) {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return string(b)
}

// request is for [Request].
func (q *quickCall) request() *http.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.req == nil && q.head != nil {
		s := &http2Stream{h: q.h, st: q.st, head: q.head, ctx: q, ended: true}
		if r, err := s.request(); err == nil { // as it is: the path of a method is valid
			q.req = q.h.complete(r)
		}
	}
	return q.req
}

// responseHeader is for [Header].
func (q *quickCall) responseHeader() http.Header {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.own == nil {
		q.own = http.Header{}
	}
	return q.own
}

// sendHeader is for [SendHeader], which has no effect for unary calls.
func (*quickCall) sendHeader() error { return nil }
