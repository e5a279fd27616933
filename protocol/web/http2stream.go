package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/http2"
)

// http2Stream is a request of an [http2Conn], and its response.
type http2Stream struct {
	h      *http2Conn
	st     *http2.Stream
	head   *http2.Block
	ctx    context.Context //nolint:containedctx // the request's
	cancel context.CancelFunc
	req    *http.Request
	held   bool // what it sends is written by the goroutine that reads, later

	// Guarded by h.machine.
	changed sync.Cond   // any of what follows, or the stream's windows
	body    http2Pieces // of the request, that have come, and were not read
	into    []byte      // what comes next goes here, before body; see [directMessages]
	unpaced int         // bytes that must come until paced is set again
	paced   time.Time   // when 64 KiB of a message had come last, or it began
	ended   bool        // the request has come to its end
	trailer *http2.Block
	served  bool  // the handler has returned
	closed  bool  // the body is not read any more
	gone    error // why the stream has ended
	waits   bool  // for 100-continue
	readBy  deadline
	writeBy deadline
	memory  *buffer.Buffer // of the end of the response, until that is sent; nil if it is not pooled
}

// deadline is a time by which something must have happened; the zero value is none.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// set changes the deadline; passed is called, in another goroutine, when it has passed.
func (d *deadline) set(t time.Time, passed func()) {
	d.stop()
	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), passed)
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// bodyLocked takes a part of the body.
func (s *http2Stream) bodyLocked(b []byte, end bool) {
	if n := copy(s.into, b); n > 0 {
		s.h.m.Consumed(s.st, n)
		s.into, b = s.into[n:], b[n:]
		if s.unpaced -= n; s.unpaced <= 0 {
			s.unpaced, s.paced = stallBytes, s.h.heard
		}
	}
	if s.closed {
		s.h.m.Consumed(s.st, len(b))
	} else {
		s.body.append(b)
	}
	if s.ended = s.ended || end; s.ended || len(s.into) == 0 {
		s.changed.Broadcast()
	}
}

// sentLocked notes that the response has been sent.
func (s *http2Stream) sentLocked() {
	s.writeBy.stop()
	s.memory.Put()
	s.memory = nil
	if s.served {
		s.refuseRestLocked()
	}
}

// refuseRestLocked tells the client that the rest of its request is not wanted, when it has all of the
// response (RFC 9113, section 8.1).
func (s *http2Stream) refuseRestLocked() {
	if !s.ended {
		s.h.m.Cancel(s.st, http2.NoError)
	}
}

// goneLocked notes that the stream has ended before its messages.
func (s *http2Stream) goneLocked(why error) {
	if s.gone == nil {
		s.gone = why
		s.cancel()
		s.changed.Broadcast()
	}
}

// serve runs the handler of the request.
func (s *http2Stream) serve() {
	h := s.h
	w := &http2Response{s: s, header: http.Header{}}
	defer s.end()
	if s.head.TooLarge {
		w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
		w.finish()
		return
	}
	req, err := s.request()
	if err != nil {
		h.tell(func() { h.m.Cancel(s.st, http2.ProtocolError) })
		return
	}
	s.req, w.head = req, req.Method == http.MethodHead
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // it is compared as net/http does
			h.Logger().Warn("a handler has panicked", "panic", v, "stack", string(debug.Stack()))
		}
		h.tell(func() { h.m.Cancel(s.st, http2.InternalError) })
	}()
	h.conn.serve(h.p.handler, w, req)
	w.finish()
	returned = true
}

// end gives up what the stream has held.
func (s *http2Stream) end() {
	h := s.h
	s.cancel()
	s.tell(s.endLocked)
	if !s.held {
		h.endIfDone()
	}
}

// tell changes the machine, and writes what follows from that.
func (s *http2Stream) tell(f func()) {
	s.h.machine.Lock()
	f()
	s.h.machine.Unlock()
	if !s.held {
		s.h.flush()
	}
}

func (s *http2Stream) endLocked() {
	h := s.h
	s.readBy.stop()
	if s.st.Sent() {
		s.writeBy.stop()
	}
	h.m.Consumed(s.st, s.body.drop())
	s.closed, s.into = true, nil
	s.served = true
	if s.st.Sent() {
		s.refuseRestLocked()
	}
	if s.req != nil {
		s.head.Free()
	}
	h.m.Done(s.st)
	delete(h.streams, s)
	h.used = time.Now()
}

// request makes the request that the stream's header describes.
func (s *http2Stream) request() (*http.Request, error) {
	b := s.head
	u := &url.URL{Host: b.Authority}
	if b.Method != http.MethodConnect {
		var err error
		if u, err = url.ParseRequestURI(b.Path); err != nil {
			return nil, err
		}
	}
	r := &http.Request{
		Method: b.Method, URL: u, Proto: "HTTP/2.0", ProtoMajor: 2, Header: make(http.Header, len(b.Fields)), Host: b.Authority,
		ContentLength: b.Length, RemoteAddr: s.h.RemoteAddr().String(), RequestURI: b.Path, Body: http.NoBody,
	}
	for _, f := range b.Fields {
		key := http.CanonicalHeaderKey(f.Name)
		r.Header[key] = append(r.Header[key], f.Value)
	}
	if cookies := r.Header["Cookie"]; len(cookies) > 1 {
		r.Header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	if r.Host == "" {
		r.Host = r.Header.Get("Host")
	}
	if b.Method == http.MethodConnect {
		r.RequestURI = b.Authority
	}
	s.declareTrailer(r)
	if strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		r.Header.Del("Expect")
		s.waits = true
	}
	s.h.machine.Lock()
	none := s.ended && s.body.length == 0 && s.trailer == nil
	s.h.machine.Unlock()
	if !none {
		r.Body = &http2Body{s: s, req: r}
	} else if r.ContentLength < 0 {
		r.ContentLength = 0
	}
	return r.WithContext(s.ctx), nil
}

// declareTrailer makes the fields that the header announces for the trailer, as net/http does.
func (*http2Stream) declareTrailer(r *http.Request) {
	for _, list := range r.Header["Trailer"] {
		for key := range strings.SplitSeq(list, ",") {
			switch key = http.CanonicalHeaderKey(strings.TrimSpace(key)); key {
			case "Transfer-Encoding", "Trailer", "Content-Length", "":
			default:
				if r.Trailer == nil {
					r.Trailer = http.Header{}
				}
				r.Trailer[key] = nil
			}
		}
	}
	delete(r.Header, "Trailer")
}

// http2Body is the body of a request.
type http2Body struct {
	s   *http2Stream
	req *http.Request
}

// Read waits for more of the body.
func (b *http2Body) Read(p []byte) (int, error) {
	s, h := b.s, b.s.h
	n, err := b.read(p)
	h.machine.Lock()
	write := len(h.m.Output()) > 0
	s.waits = false
	h.machine.Unlock()
	if write {
		h.flush()
	}
	return n, err
}

func (b *http2Body) read(p []byte) (int, error) {
	s, h := b.s, b.s.h
	h.machine.Lock()
	defer h.machine.Unlock()
	if s.waits && s.body.length == 0 && !s.ended {
		h.m.Interim(s.st, []http2.Field{{Name: ":status", Value: "100"}})
		h.machine.Unlock()
		h.flush()
		h.machine.Lock()
	}
	for {
		switch {
		case s.closed:
			return 0, http.ErrBodyReadAfterClose
		case len(p) == 0:
			return 0, nil
		case s.body.length > 0:
			n := s.body.read(p)
			h.m.Consumed(s.st, n)
			return n, nil
		case s.ended:
			b.takeTrailer()
			return 0, io.EOF
		case s.gone != nil:
			return 0, errClientGone
		case s.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		}
		s.changed.Wait()
	}
}

var errClientGone = errors.New("client disconnected")

// takeTrailer copies the trailer's fields that the header has announced.
func (b *http2Body) takeTrailer() {
	if b.s.trailer == nil {
		return
	}
	for _, f := range b.s.trailer.Fields {
		key := http.CanonicalHeaderKey(f.Name)
		if _, ok := b.req.Trailer[key]; ok {
			b.req.Trailer[key] = append(b.req.Trailer[key], f.Value)
		}
	}
	b.s.trailer = nil
}

// Close discards the rest.
func (b *http2Body) Close() error {
	s, h := b.s, b.s.h
	h.tell(func() {
		h.m.Consumed(s.st, s.body.drop())
		s.closed = true
		s.changed.Broadcast()
	})
	return nil
}
