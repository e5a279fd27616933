package web

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/estimate"
	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
	"github.com/tandem-rpc/tandem/internal/lazyctx"
	"github.com/tandem-rpc/tandem/server"
)

// quickCall is a unary call over gRPC, gRPC-Web or Connect whose message comes in one frame. It needs neither an
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
	format  quickFormat
	kind    string // Content-Type of the request, and of the response
	most    int    // bytes that the message may have
	message []byte
	memory  server.Reservation
	reply   *buffer.Buffer // with room for the prefix of the message
	gzip    bool           // large responses are compressed
	waits   bool           // for its message
	decoded bool           // interceptors have let the call pass

	mu  sync.Mutex    // guards what follows, and head, which is nil when the call has ended
	own http.Header   // see [Header]; nil until it is asked for
	req *http.Request // see [Request]; nil until it is asked for
}

// quickFormat is how messages and errors of a [quickCall] are written.
type quickFormat uint8

const (
	overGRPC quickFormat = iota
	overGRPCWeb
	overConnect
)

// quickTypes are the values of Content-Type of quick calls.
var quickTypes = map[string]struct { //nolint:gochecknoglobals // a table
	format quickFormat
	codec  string
}{
	"application/grpc":           {overGRPC, "proto"},
	"application/grpc+proto":     {overGRPC, "proto"},
	"application/grpc+json":      {overGRPC, "json"},
	"application/grpc-web":       {overGRPCWeb, "proto"},
	"application/grpc-web+proto": {overGRPCWeb, "proto"},
	"application/grpc-web+json":  {overGRPCWeb, "json"},
	"application/proto":          {overConnect, "proto"},
	"application/json":           {overConnect, "json"},
}

// quick returns the call of a request, whose header is ev, if it can be made the quick way as soon as
// takeWhole has taken its body.
func (h *http2Conn) quick(ev *http2.Event) *quickCall {
	b := ev.Block
	if b.Method != http.MethodPost || ev.End || b.TooLarge || h.hosts != nil && (!h.defaultHosts || h.Peer().TLS != nil) {
		return nil
	}
	to := h.target(b.Path)
	if to.method == nil {
		return nil
	}
	q := &quickCall{h: h, st: ev.Stream, head: b, waits: true, most: to.method.MaxMessage}
	q.call.Method, q.call.Idempotent = to.name, to.method.Safe
	timeout, ok := q.readHeader(b)
	if !ok {
		return nil
	}
	if timeout > 0 {
		q.call.Deadline = time.Now().Add(timeout)
	}
	q.call.Codec, q.call.Body = q.codec.Name(), q
	q.Init(h.ctx, time.Time{})
	ev.Stream.Owner = q
	return q
}

// takeWhole takes the message of the request from an event, if that has all of it.
func (q *quickCall) takeWhole(ev *http2.Event) bool {
	q.waits = false
	body := ev.Data
	if ev.Kind != http2.Body || !ev.End {
		return false
	}
	if q.format != overConnect {
		if len(body) < envelopeLen || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-envelopeLen {
			return false
		}
		body = body[envelopeLen:]
	}
	if len(body) > q.most {
		return false
	}
	q.message = append([]byte(nil), body...)
	q.h.m.Consumed(q.st, len(ev.Data))
	return true
}

// quickTarget is the method that requests for a path call.
type quickTarget struct {
	method *server.Method
	name   string
}

// target returns the unary method that requests for a path call, or none if another handler may get
// them.
func (h *http2Conn) target(path string) quickTarget {
	if path == h.firstPath {
		return h.first
	}
	to, ok := h.targets[path]
	if ok || !h.p.quick || !plainPath(path) {
		return to
	}
	to.name = methodOf(path)
	to.method = h.Method(to.name)
	switch {
	case to.method == nil || to.method.Kind == tandem.Streaming || !h.p.isOurs(path):
		return quickTarget{}
	case h.firstPath == "":
		h.firstPath, h.first = path, to
		return to
	case h.targets == nil, len(h.targets) == maxTargets:
		h.targets = map[string]quickTarget{}
	}
	h.targets[path] = to
	return to
}

// maxTargets bounds the paths that a connection knows.
const maxTargets = 64

// isOurs reports whether no other handler gets requests for a path.
func (p *protocol) isOurs(path string) bool {
	if len(p.opts.mounts) == 0 {
		return true
	}
	_, pattern := p.mux.Handler(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}})
	return pattern == "/"
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

// quickHeader is what a header says of a call in one format or another, as its fields come in any order.
type quickHeader struct {
	timeouts [overConnect + 1]time.Duration
	gzip     [overConnect + 1]bool // large responses are to be compressed
}

// readHeader takes what the header says; ok is false if the request must go the long way.
func (q *quickCall) readHeader(b *http2.Block) (timeout time.Duration, ok bool) {
	var md tandem.Metadata
	var h quickHeader
	for i := range b.Fields {
		f := &b.Fields[i]
		if f.Name == "authorization" && md.Get("authorization") != "" || !q.readField(f, &h) {
			return 0, false
		}
		md = addField(md, *f)
	}
	q.call.Metadata, q.call.Peer, q.gzip = md, q.h.peer(q.format), h.gzip[q.format]
	return h.timeouts[q.format], q.codec != nil
}

// readField takes a field of the header; it returns false if the request must go the long way.
func (q *quickCall) readField(f *http2.Field, h *quickHeader) bool {
	switch f.Name {
	case "content-type":
		if q.codec != nil {
			return false
		}
		kind := quickTypes[f.Value]
		q.kind, q.format, q.codec = f.Value, kind.format, q.h.p.gateway.codecs[kind.codec]
		return q.codec != nil
	case "grpc-timeout":
		t, ok := parseTimeout(f.Value)
		ok = ok && h.timeouts[overGRPC] == 0
		h.timeouts[overGRPC], h.timeouts[overGRPCWeb] = t, t
		return ok
	case "connect-timeout-ms":
		t, ok := parseMilliseconds(f.Value)
		ok = ok && h.timeouts[overConnect] == 0
		h.timeouts[overConnect] = t
		return ok
	case "accept-encoding":
		h.gzip[overConnect] = h.gzip[overConnect] || lists(f.Value, "gzip")
	case "grpc-encoding": // the prefix of the message says whether it is used; see compressedAsAsked
		h.gzip[overGRPC], h.gzip[overGRPCWeb] = f.Value == "gzip", f.Value == "gzip"
		return f.Value == "gzip" || f.Value == "identity"
	case "content-encoding":
		return f.Value == "identity"
	case "connect-protocol-version":
		return f.Value == "1"
	case "accept":
		return !strings.Contains(f.Value, typeGRPCWebText) // the answer is to be text
	case "expect", "trailer":
		return false
	}
	return true
}

// peer returns the peer of calls of a format.
func (h *http2Conn) peer(f quickFormat) *tandem.Peer {
	if h.peers[f] == nil {
		h.peers[f] = peerOf(h.Conn, [...]string{"grpc", "grpc-web", "connect"}[f])
	}
	return h.peers[f]
}

// lists reports whether a list with commas has an element.
func lists(list, element string) bool {
	for each := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(each) == element {
			return true
		}
	}
	return false
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

// parseMilliseconds reads Connect's timeout: at most ten digits.
func parseMilliseconds(text string) (time.Duration, bool) {
	const longest = 10
	n, err := strconv.ParseUint(text, 10, 63)
	return time.Duration(n) * time.Millisecond, err == nil && n > 0 && len(text) <= longest
}

// run makes the call, and reports whether the calling goroutine still reads the connection; if not,
// takeOver has been called in the one that does.
func (q *quickCall) run(takeOver func()) (reads bool) {
	q.h.noteRequest()
	if q.Err() != nil { // its client has reset it, or is gone
		q.giveUpHead().Free()
		q.h.machine.Lock()
		q.h.m.Done(q.st)
		q.h.machine.Unlock()
		return true
	}
	q.memory.Init(q.h.Conn, q)
	q.memory.For(&q.call)
	return q.h.GoHere(q, &q.call, q, takeOver)
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
	q.decoded = true
	c := q.codec
	if _, several := v.(tandem.Results); several || len(q.message) > estimate.Light(reflect.TypeOf(v)) {
		c = q.memory.Codec(c, q.message)
	}
	return decode(c, q.message, v)
}

// Encode encodes the response.
func (q *quickCall) Encode(v any) error {
	if q.reply == nil {
		q.reply = buffer.Get()
	}
	b, err := appendEncoded(q.codec, append(q.reply.B[:0], make([]byte, envelopeLen)...), v)
	if err == nil {
		q.reply.B = b
	}
	return err
}

// Stream returns nil: the call is unary.
func (*quickCall) Stream() tandem.MessageStream { return nil }

// Answer answers the call. The answers of calls that the reader has made are written together.
func (q *quickCall) Answer(here bool, err error) {
	q.memory.Release()
	if err != nil && (q.format != overGRPC || !q.decoded) {
		q.fail(here, err)
		return
	}
	h := q.h
	var room [8]http2.Field
	head, body, trailer := q.response(room[:0], err)
	q.giveUpHead().Free()
	h.machine.Lock()
	if err != nil || len(body) == 0 && len(trailer) == 0 {
		h.m.Header(q.st, append(head, trailer...), true)
	} else {
		h.m.Header(q.st, head, false)
		if h.m.Finish(q.st, body, trailer); !q.st.Sent() {
			q.limitLocked(1 + len(body)/answerPiece)
		}
	}
	h.m.Done(q.st)
	h.used = time.Now()
	sent := q.st.Sent()
	h.machine.Unlock()
	if sent {
		q.reply.Put()
	}
	q.Cancel()
	if !here {
		runtime.Gosched() // the calls that came with this one may end, and be answered in the same write
		h.flush()
		h.endIfDone()
	}
}

// fail answers a call with an error as any other request: of calls that are refused by their header,
// no caller must see whether there is such a method.
func (q *quickCall) fail(here bool, err error) {
	req := q.request()
	q.h.machine.Lock()
	s := q.h.beginLocked(q.st, q.head, true)
	s.held = here
	if gone := q.st.Gone(); gone != nil {
		s.goneLocked(gone)
	}
	q.h.machine.Unlock()
	defer s.end()
	w := &http2Response{s: s, header: http.Header{}}
	fields := http.Header{}
	addMetadata(fields, q.call.Trailer)
	setRetryFields(fields, err)
	limitAnswer(http.NewResponseController(w), req, q.h.Conn, 0)
	_ = q.h.p.gateway.failures.Write(w, req, toConnect(err, q.responseHeader(), fields)) // an error means that the client is gone
	w.finish()
	q.Cancel()
}

// response returns the header, body and trailer of the response.
func (q *quickCall) response(room []http2.Field, err error) (head []http2.Field, body []byte, trailer []http2.Field) {
	head = q.header(room)
	if err != nil {
		return head, nil, q.trailer(err)
	}
	head, body = q.envelope(head)
	trailer = q.trailer(nil)
	switch q.format {
	case overGRPCWeb:
		body, trailer = appendTrailer(body, trailer), nil
		head = append(head, http2.Field{Name: "date", Value: time.Now().UTC().Format(http.TimeFormat)})
	case overConnect:
		body = body[envelopeLen:]
		head = append(head, http2.Field{Name: "content-length", Value: strconv.Itoa(len(body))},
			http2.Field{Name: "date", Value: time.Now().UTC().Format(http.TimeFormat)})
		for _, f := range trailer[1:] { // the first is gRPC's status
			head = append(head, http2.Field{Name: "trailer-" + f.Name, Value: f.Value})
		}
		trailer = nil
	case overGRPC:
	}
	return head, body, trailer
}

// appendTrailer appends the trailer of gRPC-Web, which is a part of the body.
func appendTrailer(body []byte, trailer []http2.Field) []byte {
	const flag = 0x80
	at := len(body)
	body = append(body, flag, 0, 0, 0, 0)
	for _, f := range trailer {
		body = append(append(append(append(body, f.Name...), ": "...), f.Value...), "\r\n"...)
	}
	binary.BigEndian.PutUint32(body[at+1:], uint32(len(body)-at-envelopeLen)) //nolint:gosec // a header is smaller than 4 GiB
	return body
}

// limitLocked limits the time for a response that the client's window does not take at once.
func (q *quickCall) limitLocked(pieces int) {
	s := &http2Stream{h: q.h, st: q.st, ended: true, ctx: q, cancel: q.Cancel, memory: q.reply}
	s.changed.L = &q.h.machine
	q.st.Owner = s
	s.limitLocked(time.Now().Add(time.Duration(pieces) * q.h.StallTimeout()))
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
	if q.reply == nil { // nothing was encoded
		return head, make([]byte, envelopeLen)
	}
	b, field, flag := q.reply.B, "grpc-encoding", byte(1)
	if q.format == overConnect {
		field, flag = "content-encoding", 0
	}
	if q.gzip && len(b)-envelopeLen >= compressAbove {
		if packed, err := q.h.p.gateway.gzip.Compress(make([]byte, envelopeLen), b[envelopeLen:]); err == nil {
			b = packed
			b[0] = flag
			head = append(head, http2.Field{Name: field, Value: "gzip"})
		}
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-envelopeLen)) //nolint:gosec // messages are smaller than 4 GiB
	return head, b
}

// header appends the header of the response.
func (q *quickCall) header(to []http2.Field) []http2.Field {
	accepted := "grpc-accept-encoding"
	if q.format == overConnect {
		accepted = "accept-encoding"
	}
	to = append(to, http2.Field{Name: ":status", Value: "200"}, http2.Field{Name: "content-type", Value: q.kind},
		http2.Field{Name: accepted, Value: "gzip"})
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
