package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// withDefaults returns a GET with the parameters that connect requires: the encoding is
// JSON if it names none, and the message is {} if it has none.
func withDefaults(r *http.Request) *http.Request {
	q := r.URL.Query()
	if q.Has("encoding") && q.Has("message") {
		return r
	}
	if !q.Has("encoding") {
		q.Set("encoding", "json")
	}
	if !q.Has("message") && q.Get("encoding") == "json" {
		q.Set("message", "{}")
	}
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	return r
}

// forMethod prepares a request for connect.
func (x *exchange) forMethod(w http.ResponseWriter, r *http.Request) *http.Request {
	c, m := x.conn, x.method
	if m.Kind != tandem.Streaming {
		most := int64(m.MaxMessage) + stallBytes
		r.Body = &timedBody{ReadCloser: r.Body, w: w, stall: c.StallTimeout(), most: most}
		if x.only {
			return asHTTP2(r)
		}
		return r
	}
	r.Body = x.newStreamBody(w, r.Body)
	if r.ProtoMajor < 2 { // connect refuses bidirectional streams over HTTP/1, though half-duplex ones work
		_ = http.NewResponseController(w).EnableFullDuplex() // if it fails, clients that send all before they read still work
	}
	return asHTTP2(r)
}

func (x *exchange) newStreamBody(w http.ResponseWriter, body io.ReadCloser) *timedStreamBody {
	p := &timedStreamBody{ReadCloser: body, x: x}
	if resp := responseOf(w); resp != nil && x.req.ProtoMajor >= 2 {
		p.conn = resp.conn
	}
	return p
}

// timedBody is the body of a unary request. It must keep arriving: 64 KiB, or the rest, within
// the stall timeout, or as much of the connection's other requests (see arrivals).
type timedBody struct {
	io.ReadCloser

	w     http.ResponseWriter
	stall time.Duration
	left  int   // bytes until the deadline is set again
	most  int64 // bytes that may still be read
}

func errTooLong() error {
	return connect.NewError(connect.CodeResourceExhausted, errors.New("the request is larger than the method takes: see WithMaxMessage"))
}

const stallBytes = 64 << 10

// drainRefused reads the body of a request that will be refused, if it is small and its length is
// known, and then sets the write deadline; the response must follow. Over HTTP/2, data that
// arrives after the response is a stream error, and clients such as curl then discard the
// response. For HTTP/1 net/http reads the body.
func drainRefused(w http.ResponseWriter, r *http.Request, c *server.Conn) {
	if r.ProtoMajor >= 2 && r.ContentLength > 0 && r.ContentLength <= stallBytes {
		body := &timedBody{ReadCloser: r.Body, w: w, stall: c.StallTimeout(), most: stallBytes}
		_, _ = io.Copy(io.Discard, body) // the request is refused in any case
	}
	limitAnswer(http.NewResponseController(w), r, c, 0)
}

// answerPiece is how many bytes of a response the client has to receive within the stall
// timeout.
const answerPiece = 256 << 10

// limitAnswer sets the time that the client has to receive a response of this size, in bytes;
// after that its HTTP/2 stream is reset. Without it, a client that grants no window would hold
// the response without limit. Over HTTP/1 each write to the connection has a deadline already.
func limitAnswer(control *http.ResponseController, r *http.Request, c *server.Conn, bytes int) {
	if r.ProtoMajor >= 2 && !abandoned(r) {
		pieces := 1 + bytes/answerPiece
		_ = control.SetWriteDeadline(time.Now().Add(time.Duration(pieces) * c.StallTimeout()))
	}
}

func (s *timedBody) Read(p []byte) (int, error) {
	if s.most < 0 {
		return 0, errTooLong()
	}
	if resp := responseOf(s.w); s.left <= 0 || resp != nil && resp.readsLimited() {
		s.left = stallBytes
		if err := s.setDeadline(time.Now().Add(s.stall)); err != nil {
			return 0, err
		}
	}
	n, err := s.ReadCloser.Read(p)
	s.left -= n
	s.most -= int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the request has not come on for %v: see WithStallTimeout (%w)", s.stall, err)
	}
	if errors.Is(err, io.EOF) { // net/http continues to read, to notice that the client is gone
		_ = s.setDeadline(time.Time{})
	}
	return n, err
}

func (s *timedBody) setDeadline(t time.Time) error {
	return http.NewResponseController(s.w).SetReadDeadline(t)
}

// writeError answers with an error in JSON, as connect writes it. Errors of HTTP itself are
// RFC 9457 problems as well, so that clients do not take them for the method's error.
func writeError(w http.ResponseWriter, status int, err error) {
	e := toConnect(err)
	content := struct {
		Code    string `json:"code"`
		Message string `json:"message,omitempty"`
		Status  int    `json:"status,omitempty"`
		Title   string `json:"title,omitempty"`
	}{Code: e.Code().String(), Message: e.Message()}
	kind := "application/json"
	if status != http.StatusNotFound {
		kind, content.Status, content.Title = "application/problem+json", status, http.StatusText(status)
	}
	b, failed := json.Marshal(content)
	if failed != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b) // an error means that the client is gone
}
