package web

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
)

// response writes the answer to a request. Over HTTP/1 the header says that the connection
// ends with it (RFC 9112, section 9.6) if the server drains by then, or if the rest of
// the request has not come: no answer waits for what may never come.
type response struct {
	http.ResponseWriter

	conn   *conn
	http1  bool
	body   io.Reader // the request's, as net/http reads it; nil if there is none
	readBy time.Time // deadline of reading the request; guarded by conn.mu

	serving sync.Mutex // held while others than the handler set deadlines
	served  bool       // guarded by serving
}

// serve serves a request, unless its client has reset it already: what is begun for such
// requests, each of which keeps a stack, must cost less than their frames cost the client.
func (c *conn) serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	if abandoned(r) {
		return
	}
	r = c.complete(r)
	resp := &response{ResponseWriter: w, conn: c, http1: r.ProtoMajor == 1}
	if resp.http1 && r.Body != http.NoBody {
		resp.body = r.Body
		r.Body = &incoming{r.Body, c}
	}
	c.enter(resp)
	defer resp.end()
	defer c.leave(resp)
	if why := c.objection(r); why != "" {
		refuseMalformed(resp, r, c.Conn, why)
		return
	}
	if !c.misdirected(resp, r) {
		h.ServeHTTP(resp, r)
	}
	resp.tell() // if nothing is written yet
}

func (c *conn) enter(w *response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.responses == nil {
		c.responses = map[*response]struct{}{}
	}
	c.responses[w] = struct{}{}
	if !c.hasAsked {
		c.hasAsked = true
		close(c.asked)
	}
}

// leave ends a request of HTTP/1. What has not come of it has a second, unless it has been
// waited for in vain already: net/http reads up to 256 KiB, and then closes the connection, as
// the header has said. What has come is read
// here: net/http reads it after a stream too, but then waits for the next request twice at
// the same time, and panics.
func (c *conn) leave(w *response) {
	c.mu.Lock()
	delete(c.responses, w)
	served := w.http1 && !c.hijacked
	whole := c.wholeLocked()
	if served && !whole {
		until := time.Now()
		if !c.failed {
			until = until.Add(lastPiece)
		}
		_ = c.Conn.SetReadDeadline(until) // a closed connection says so when it is read
	}
	if served && c.framing.midHeader() {
		c.headerBeganLocked()
	}
	c.mu.Unlock()
	if served && whole && w.body != nil {
		_, _ = io.Copy(io.Discard, w.body) // net/http reports what is wrong with it
	}
}

// hurry ends what would hold up a server that drains: a connection without a request, and
// a request that does not come.
func (c *conn) hurry() {
	c.mu.Lock()
	c.hurried = true
	last := time.Now().Add(lastPiece)
	var waiting []*response
	for w := range c.responses {
		if w.readBy.After(last) {
			waiting = append(waiting, w)
		}
	}
	idle := len(c.responses) == 0 && !c.hijacked
	c.mu.Unlock()
	if idle {
		_ = c.Close()
	}
	for _, w := range waiting {
		w.whileServed(func() { _ = w.SetReadDeadline(last) })
	}
}

// lastPiece is how long a server that drains waits for more of a request.
const lastPiece = time.Second

// SetReadDeadline sets the deadline of reading the request, which is earlier when the
// server drains.
func (w *response) SetReadDeadline(t time.Time) error {
	w.conn.mu.Lock()
	if last := time.Now().Add(lastPiece); w.conn.hurried && t.After(last) {
		t = last
	}
	w.readBy = t
	w.conn.mu.Unlock()
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(t)
}

// hurried reports whether the server drains, and has waited.
func (w *response) hurried() bool {
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	return w.conn.hurried
}

// tell does nothing when the header has been written.
func (w *response) tell() {
	if w.http1 && (w.conn.leaving.Load() || !w.conn.whole()) {
		w.Header().Set("Connection", "close")
	}
}

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header.
func (w *response) WriteHeader(status int) {
	w.tell()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body, the header first.
func (w *response) Write(b []byte) (int, error) {
	w.tell()
	return w.ResponseWriter.Write(b)
}

// Flush sends what has been written.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush, for [http.ResponseController].
func (w *response) FlushError() error {
	w.tell()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack hands the connection over: to a WebSocket.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// incoming is the body of a request of HTTP/1.
type incoming struct {
	io.ReadCloser

	conn *conn
}

// Read reads the body. Its error is one of the client's if the connection has none.
func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	why, failed := b.conn.malformed()
	switch {
	case why != "":
		return n, malformedBody(errors.New(why))
	case err == nil || failed || errors.Is(err, io.EOF):
		return n, err
	}
	return n, malformedBody(err)
}

func malformedBody(err error) error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New("malformed request: "+err.Error()))
}

// Close does nothing: net/http would read the rest.
func (*incoming) Close() error { return nil }
