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

// withDefaults returns a GET that says what its message is: JSON unless it says
// something else, and an empty one if there is none.
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
		r.Body = &steady{ReadCloser: r.Body, w: w, stall: c.StallTimeout(), most: most}
		return r
	}
	p := &pieces{ReadCloser: r.Body, x: x}
	if resp, ok := w.(*response); ok && r.ProtoMajor >= 2 {
		p.conn = resp.conn
	}
	r.Body = p
	if r.ProtoMajor < 2 { // connect refuses streams both ways there, though half of them work
		_ = http.NewResponseController(w).EnableFullDuplex() // without it, clients that send all before they read still work
		copied := *r
		copied.ProtoMajor, copied.ProtoMinor = 2, 0
		return &copied
	}
	return r
}

// steady is the body of a request that must keep coming: 64 KiB, or its rest, within
// the stall timeout, or as much of the connection's other requests: see arrivals.
type steady struct {
	io.ReadCloser

	w     http.ResponseWriter
	stall time.Duration
	left  int   // bytes until the deadline is set again
	most  int64 // bytes that are read
}

func errTooLong() error {
	return connect.NewError(connect.CodeResourceExhausted, errors.New("the request is larger than the method takes: see WithMaxMessage"))
}

const stallBytes = 64 << 10

// await reads a request that will be refused, if it is small and says so. Over HTTP/2
// what comes after its answer is an error of the stream, and clients such as curl then
// throw the answer away. Of HTTP/1 net/http takes care. The answer must follow.
func await(w http.ResponseWriter, r *http.Request, c *server.Conn) {
	if r.ProtoMajor >= 2 && r.ContentLength > 0 && r.ContentLength <= stallBytes {
		body := &steady{ReadCloser: r.Body, w: w, stall: c.StallTimeout(), most: stallBytes}
		_, _ = io.Copy(io.Discard, body) // it is refused in any case
	}
	limitAnswer(http.NewResponseController(w), r, c, 0)
}

// answerPiece is what a client has to take of an answer within the stall timeout.
const answerPiece = 256 << 10

// limitAnswer gives the client its time to take an answer of so many bytes, after which
// its stream of HTTP/2 is reset: it is the client that says how much of each may be
// written, and an answer would be held for as long as it likes. Over HTTP/1 there is
// only the connection, each write to which has its time.
func limitAnswer(control *http.ResponseController, r *http.Request, c *server.Conn, bytes int) {
	if r.ProtoMajor >= 2 && !abandoned(r) {
		pieces := 1 + bytes/answerPiece
		_ = control.SetWriteDeadline(time.Now().Add(time.Duration(pieces) * c.StallTimeout()))
	}
}

func (s *steady) Read(p []byte) (int, error) {
	if s.most < 0 {
		return 0, errTooLong()
	}
	if hasty, ok := s.w.(*response); s.left <= 0 || ok && hasty.hurried() {
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
	if errors.Is(err, io.EOF) { // net/http goes on reading, for the end of the client
		_ = s.setDeadline(time.Time{})
	}
	return n, err
}

func (s *steady) setDeadline(t time.Time) error {
	return http.NewResponseController(s.w).SetReadDeadline(t)
}

// writeError answers with an error in JSON, as connect writes it. What HTTP itself does
// not allow is a problem of RFC 9457 besides: clients must not take it for an
// answer of the method.
func writeError(w http.ResponseWriter, status int, err error) {
	e := outward(err)
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
	_, _ = w.Write(b) // if it fails the client is gone
}
