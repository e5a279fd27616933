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

// response writes the response to a request. Over HTTP/1 its header announces the end of
// the connection (RFC 9112, section 9.6) if the server drains by then, or if the rest of
// the request has not arrived: a response does not wait for a body that may never come.
type response struct {
	http.ResponseWriter

	conn   *conn
	http1  bool
	body   io.Reader // the request's body as net/http reads it; nil if there is none
	readBy time.Time // deadline of reading the request; guarded by conn.mu

	serving sync.Mutex // held while other goroutines than the handler's set deadlines
	served  bool       // the handler has returned; guarded by serving
}

// serve serves a request, unless its client has reset it already: a reset request must cost
// the server less than its frames cost the client.
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
	resp.announceClose() // in case nothing is written yet
}

func (c *conn) enter(w *response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.responses == nil {
		c.responses = map[*response]struct{}{}
	}
	c.responses[w] = struct{}{}
	c.noteRequestLocked()
}

// noteRequest notes that a request has come.
func (c *conn) noteRequest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteRequestLocked()
}

func (c *conn) noteRequestLocked() {
	if !c.hasFirstRequest {
		c.hasFirstRequest = true
		close(c.firstRequest)
	}
}

// leave ends an HTTP/1 request. A body that has not arrived gets another second, unless a
// read has already failed: net/http reads up to 256 KiB of it and then closes the
// connection, as the header announced. A body that has arrived is read here: after a stream
// net/http would read it too, but then it waits for the next request twice at the same
// time, and panics.
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
		_ = c.Conn.SetReadDeadline(until) // an error is reported by the next read
	}
	if served && c.framing.midHeader() {
		c.headerBeganLocked()
	}
	c.mu.Unlock()
	if served && whole && w.body != nil {
		_, _ = io.Copy(io.Discard, w.body) // net/http reports an error
	}
}

// limitReads ends what would delay a server that drains: it closes a connection without a
// request, and shortens the read deadlines of requests that are still arriving.
func (c *conn) limitReads() {
	c.mu.Lock()
	c.readsLimited = true
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

// SetReadDeadline sets the deadline for reading the request; at most lastPiece from now
// while the server drains.
func (w *response) SetReadDeadline(t time.Time) error {
	w.conn.mu.Lock()
	if last := time.Now().Add(lastPiece); w.conn.readsLimited && t.After(last) {
		t = last
	}
	w.readBy = t
	w.conn.mu.Unlock()
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(t)
}

// readsLimited reports whether limitReads has been called.
func (w *response) readsLimited() bool {
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	return w.conn.readsLimited
}

// announceClose announces the end of the connection in the header, if necessary. It has no effect
// once the header has been written.
func (w *response) announceClose() {
	if w.http1 && (w.conn.draining.Load() || !w.conn.whole()) {
		w.Header().Set("Connection", "close")
	}
}

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header.
func (w *response) WriteHeader(status int) {
	w.announceClose()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body, after the header.
func (w *response) Write(b []byte) (int, error) {
	w.announceClose()
	return w.ResponseWriter.Write(b)
}

// Flush sends what has been written.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush, for [http.ResponseController].
func (w *response) FlushError() error {
	w.announceClose()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack hands the connection over, for example to a WebSocket.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// incoming is the body of an HTTP/1 request.
type incoming struct {
	io.ReadCloser

	conn *conn
}

// Read reads the body. An error that is not the connection's is reported as an invalid
// request.
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

// Close does nothing, since net/http's Close would read the rest.
func (*incoming) Close() error { return nil }
