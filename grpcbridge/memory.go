package grpcbridge

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
)

// memory is an HTTP client whose requests a handler of this process answers, without a connection: as
// over HTTP/2, both sides may send at the same time.
type memory struct {
	handler http.Handler
	remote  string // address of the caller, for the handler
	// panicked is called if the handler panics, before the response ends; nil lets the panic end
	// the process, as in any goroutine.
	panicked func(v any, stack []byte)
}

// Do makes a request. The handler runs in a goroutine until it returns; closing the body of the
// response, or the end of the request's context, ends its context.
func (m memory) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	in.RequestURI, in.RemoteAddr = req.URL.RequestURI(), m.remote
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := newMemoryWriter()
	res := &http.Response{
		Request: req, Proto: in.Proto, ProtoMajor: 2, ContentLength: -1, Trailer: http.Header{},
	}
	res.Body = &memoryBody{buffered: w.body, res: res, w: w, cancel: cancel}
	hangUp := context.AfterFunc(ctx, func() { // as a connection does: reads of both sides fail
		_ = in.Body.Close()
		w.body.finish(context.Cause(ctx))
	})
	go func() {
		err := errAborted
		defer func() {
			if m.panicked != nil {
				if v := recover(); v != nil {
					m.panicked(v, debug.Stack())
				}
			}
			hangUp()
			_ = in.Body.Close()
			w.finish(err)
			cancel()
		}()
		m.handler.ServeHTTP(w, in)
		err = nil
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		select {
		case <-w.begun: // the handler has ended, and ended ctx
		default:
			_ = res.Body.Close()
			return nil, context.Cause(ctx)
		}
	}
	if w.aborted != nil {
		_ = res.Body.Close()
		return nil, w.aborted
	}
	res.StatusCode, res.Header = w.status, w.sent
	res.Status = http.StatusText(w.status)
	return res, nil
}

var errAborted = errors.New("the handler has panicked")

// memoryBody is the body of a response.
type memoryBody struct {
	*buffered

	res    *http.Response
	w      *memoryWriter
	cancel func()
}

// Read reads the body, and at its end the trailer.
func (b *memoryBody) Read(p []byte) (int, error) {
	n, err := b.buffered.Read(p)
	if errors.Is(err, io.EOF) {
		maps.Copy(b.res.Trailer, b.w.trailer)
	}
	return n, err
}

// Close ends the handler's context; its writes fail.
func (b *memoryBody) Close() error {
	b.cancel()
	return b.buffered.Close()
}

// memoryWriter is the handler's [http.ResponseWriter].
type memoryWriter struct {
	body   *buffered
	header http.Header
	once   sync.Once
	begun  chan struct{} // closed when the rest is set

	status  int
	sent    http.Header
	aborted error // the handler has not begun a response

	trailer http.Header // set before the body ends
}

func newMemoryWriter() *memoryWriter {
	return &memoryWriter{body: newBuffered(), header: http.Header{}, begun: make(chan struct{})}
}

// Header returns the header of the response.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader sends the header.
func (w *memoryWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

// Write sends a part of the body. It waits while the client is behind.
func (w *memoryWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush sends the header; Write leaves nothing to flush.
func (w *memoryWriter) Flush() { w.WriteHeader(http.StatusOK) }

// finish ends the response, with err if the handler has failed.
func (w *memoryWriter) finish(err error) {
	if err != nil {
		w.once.Do(func() {
			w.aborted = err
			close(w.begun)
		})
		w.body.finish(err)
		return
	}
	w.WriteHeader(http.StatusOK)
	w.trailer = http.Header{}
	for name, values := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			w.trailer[http.CanonicalHeaderKey(name)] = values
		}
	}
	w.body.finish(io.EOF)
}
