package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// Option changes what [Handler] returns.
type Option func(*handler)

// WithOrigins lets pages of other hosts than the server's own use WebSocket. Patterns such
// as "*.example.org" match the host, with its port, in the Origin header that browsers
// send. Other clients send no Origin, and are always allowed.
func WithOrigins(patterns ...string) Option {
	return func(h *handler) { h.origins = append(h.origins, patterns...) }
}

// handler serves HTTP.
type handler struct {
	json     tandem.Codec
	conn     func(context.Context) *server.Conn
	metadata func(http.Header) tandem.Metadata
	origins  []string
}

// Handler serves JSON-RPC over HTTP and WebSocket, on the port where package protocol/web
// serves HTTP. Its two arguments are that package's:
//
//	web.New(web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata)))
//
// conn returns the connection of a request's context, and metadata converts a header to the
// metadata of the calls. The header Connect-Timeout-Ms is the timeout of a call in
// milliseconds.
//
// # HTTP
//
// The body of a POST is one message. Its content type must begin with application/json,
// which a browser sends to another host only with that host's permission. A response has
// the status 200, also when it is an error; a notification, or a batch of notifications, is
// answered when it has ended, with 204 and no body.
//
// # WebSocket
//
// Each WebSocket message (RFC 6455), text or binary, is a JSON-RPC message, and so is each
// response, as text. The header of the request that opened the WebSocket applies to every
// call. A silent client is pinged. When the server drains it answers the calls that have
// begun, and then closes the connection with the status 1001.
func Handler(conn func(context.Context) *server.Conn, metadata func(http.Header) tandem.Metadata, opts ...Option) http.Handler {
	h := &handler{json: codec.JSON(), conn: conn, metadata: metadata}
	for _, o := range opts {
		o(h)
	}
	return h
}

// ServeHTTP serves a message, or a WebSocket until it ends.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sc := h.conn(r.Context())
	if sc == nil {
		http.Error(w, "JSON-RPC is served by a tandem server", http.StatusInternalServerError)
		return
	}
	c := &conn{Conn: sc, json: h.json, metadata: h.metadata(r.Header), peer: peerOf(sc)}
	switch {
	case r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		h.serveSocket(w, r, c)
	case r.Method != http.MethodPost:
		c.limitAnswer(w, r, 0)
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "JSON-RPC is a POST, or a WebSocket", http.StatusMethodNotAllowed)
	case !isJSON(r.Header):
		c.limitAnswer(w, r, 0)
		http.Error(w, "JSON-RPC wants the content type application/json, and no encoding", http.StatusUnsupportedMediaType)
	default:
		c.deadline = deadlineOf(r.Header, time.Now())
		c.held = c.Reserve(r.Context())
		defer c.held.Release()
		c.post(w, r)
	}
}

// peerOf returns the connection's peer, with our protocol.
func peerOf(c *server.Conn) *tandem.Peer {
	p := *c.Peer()
	p.Protocol = name
	return &p
}

// isJSON reports whether a body is JSON: application/json, or the proposed types
// application/json-rpc and application/jsonrequest.
func isJSON(h http.Header) bool {
	kind, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || h.Get("Content-Encoding") != "" || !strings.EqualFold(parameters["charset"], "") && !strings.EqualFold(parameters["charset"], "utf-8") {
		return false
	}
	switch kind {
	case "application/json", "application/json-rpc", "application/jsonrequest":
		return true
	}
	return false
}

// longest is the longest timeout that a header may set.
const longest = 100 * 24 * time.Hour

// timeoutField is Connect's header field for the timeout of a call.
const timeoutField = "Connect-Timeout-Ms"

// deadlineOf returns the deadline of a request's calls, zero if it sets none.
func deadlineOf(h http.Header, now time.Time) time.Time {
	ms, err := strconv.ParseInt(h.Get(timeoutField), 10, 64)
	if err != nil || ms <= 0 || ms > longest.Milliseconds() {
		return time.Time{}
	}
	return now.Add(time.Duration(ms) * time.Millisecond)
}

// post serves the message of a POST.
func (c *conn) post(w http.ResponseWriter, r *http.Request) {
	message, err := c.body(w, r)
	answer := c.tooLarge()
	switch {
	case errors.Is(err, errTooLarge):
	case tandem.CodeOf(err) == tandem.ResourceExhausted:
		answer = exhausted(err)
	case err != nil:
		c.limitAnswer(w, r, 0)
		http.Error(w, "the body did not come: "+err.Error(), http.StatusBadRequest)
		return
	default:
		done := make(chan []byte, 1)
		c.serveWhole(r.Context(), message, func(answer []byte) { done <- answer })
		answer = <-done
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(answer)+1))
	header.Set("X-Content-Type-Options", "nosniff")
	c.limitAnswer(w, r, len(answer))
	_, _ = w.Write(append(answer, '\n')) //nolint:gosec // JSON, as the header says; an error means that the client is gone
}

// body reads a body. 64 KiB, or the rest, must arrive within the stall timeout.
func (c *conn) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > int64(c.MaxMessage()) {
		return nil, errTooLarge
	}
	control := http.NewResponseController(w)
	in := &incoming{body: r.Body, control: control, stall: c.StallTimeout(), waitsUnread: r.ProtoMajor < 2}
	var message bytes.Buffer
	declared := r.ContentLength >= 0
	if declared {
		if err := c.reserve(in, r.ContentLength, r.ContentLength); err != nil {
			return nil, err
		}
	}
	for {
		if !declared {
			if err := c.reserve(in, stallBytes, int64(c.MaxMessage()-message.Len())+1); err != nil {
				return nil, err
			}
		}
		if err := control.SetReadDeadline(time.Now().Add(c.StallTimeout())); err != nil {
			return nil, err
		}
		_, err := io.CopyN(&message, in, min(stallBytes, int64(c.MaxMessage()-message.Len())+1))
		switch {
		case errors.Is(err, io.EOF):
			// net/http continues to read, to notice that the client is gone.
			return message.Bytes(), control.SetReadDeadline(time.Time{})
		case err != nil:
			return nil, err
		case message.Len() > c.MaxMessage():
			return nil, errTooLarge
		}
	}
}

// reserve reserves memory for n more bytes of a message, each of which is in memory several
// times. rest is how many bytes the message may still have.
func (c *conn) reserve(in *incoming, n, rest int64) error {
	switch {
	case n <= smallMessage:
		return nil
	case in.waitsUnread:
		return c.held.Reserve(copies * n)
	}
	in.wait = waiting{in: in, left: rest}
	early, err := c.held.ReserveReading(copies*n, &in.wait)
	switch {
	case early == nil:
	case in.early == nil:
		in.early = early
	default:
		in.early = io.MultiReader(in.early, early)
	}
	return err
}

// incoming is the message of a POST.
type incoming struct {
	early       io.Reader // what was read while it waited for memory; nil for nothing
	body        io.Reader
	control     *http.ResponseController
	stall       time.Duration
	waitsUnread bool    // it is not read while it waits: over HTTP/1, or since all of it has been read
	wait        waiting // here, so that a message that need not wait costs no allocation
}

// Read reads what was read early, and then the body.
func (in *incoming) Read(b []byte) (int, error) {
	if in.early != nil {
		if n, err := in.early.Read(b); err == nil {
			return n, nil
		}
		in.early = nil
	}
	return in.body.Read(b)
}

// waiting reads on in a message that waits for memory, over HTTP/2: net/http lets all requests of
// a connection send 1 MiB together until their handlers read, so those that waited unread would
// keep the data of those that have memory from arriving.
type waiting struct {
	in      *incoming
	left    int64 // bytes until the message ends
	unpaced int   // bytes until the read deadline is set again
}

// Read reads from the body.
func (w *waiting) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, io.EOF
	}
	if w.unpaced <= 0 {
		w.unpaced = stallBytes
		if err := w.in.control.SetReadDeadline(time.Now().Add(w.in.stall)); err != nil {
			return 0, err
		}
	}
	n, err := w.in.body.Read(b[:min(int64(len(b)), w.left)])
	w.left -= int64(n)
	w.unpaced -= n
	if w.left > 0 && err == nil || err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	w.in.waitsUnread = true
	if err := w.in.control.SetReadDeadline(time.Time{}); err != nil { // the server keeps the client waiting from now on
		return n, err
	}
	return n, io.EOF
}

// smallMessage is how many bytes need no reservation.
const smallMessage = 4 << 10

// stallBytes is how much of a body must arrive within the stall timeout.
const stallBytes = 64 << 10

// answerPiece is how much of a response the client has to receive within the stall timeout.
const answerPiece = 256 << 10

// limitAnswer sets the time that the client has to receive a response of this size, in bytes.
// Over HTTP/2 the client decides how much may be written; over HTTP/1 each write to the
// connection has a deadline already.
func (c *conn) limitAnswer(w http.ResponseWriter, r *http.Request, bytes int) {
	if r.ProtoMajor >= 2 {
		pieces := 1 + bytes/answerPiece
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Duration(pieces) * c.StallTimeout()))
	}
}

// serveWhole serves a message that has not been checked.
func (c *conn) serveWhole(ctx context.Context, data []byte, done func(answer []byte)) {
	message, err := whole(data)
	if errors.Is(err, errTooMany) {
		done(exhausted(err))
		return
	}
	if err != nil {
		done(failed(parseFailed, err))
		return
	}
	c.serve(ctx, message, done)
}

// whole returns the only message in the data, without the white space around it.
func whole(data []byte) ([]byte, error) {
	data = bytes.Trim(data, " \t\r\n")
	var f frame
	switch n, done, err := f.scan(data); {
	case err != nil:
		return nil, err
	case !done:
		return nil, io.ErrUnexpectedEOF
	case n < len(data):
		return nil, fmt.Errorf("%w: behind it comes %.16q", errNotJSON, data[n:])
	case f.tooMany():
		return nil, errTooMany
	}
	return data, nil
}
