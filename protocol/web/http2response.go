package web

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/http2"
)

// http2Response writes the response of an [http2Stream].
type http2Response struct {
	s      *http2Stream
	header http.Header
	head   bool // the request asks for the header only

	status   int         // 0 until WriteHeader
	snapshot http.Header // the header when WriteHeader was called
	sent     bool        // the header has been sent
	buffer   []byte      // of the body, that was not sent
	wrote    int64       // bytes of the body
	declared int64       // its length; negative if none is declared

	memory  *buffer.Buffer // of the body; nil if it is not pooled
	unsized bool           // the header does not tell the length of the body
}

// mostBuffered is how much of a body is buffered until Flush: a response that is smaller gets its length.
const mostBuffered = 32 << 10

// Header returns the header that WriteHeader sends.
func (w *http2Response) Header() http.Header { return w.header }

// WriteHeader sets the header; it is sent with the first part of the body.
func (w *http2Response) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic("invalid WriteHeader code " + strconv.Itoa(status))
	case w.status != 0:
		return
	case status < 200:
		fields := w.fields(status, w.header)
		w.s.tell(func() { w.s.h.m.Interim(w.s.st, fields) })
		return
	}
	w.status, w.snapshot, w.declared = status, w.header.Clone(), -1
	if text := w.snapshot.Get("Content-Length"); text != "" {
		if n, err := strconv.ParseUint(text, 10, 63); err == nil {
			w.declared = int64(n)
		} else {
			w.snapshot.Del("Content-Length")
		}
	}
	if w.snapshot.Get("Connection") == "close" {
		w.s.h.leave()
	}
}

// leave lets the client use another connection for its next request.
func (h *http2Conn) leave() {
	h.draining.Store(true)
	h.tell(func() {
		h.leaving = true
		h.m.Refuse(http2.NoError, "")
	})
}

func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Write sends a part of the body, when there is enough of it.
func (w *http2Response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case !hasBody(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.declared >= 0 && w.wrote+int64(len(b)) > w.declared:
		return 0, http.ErrContentLength
	}
	if w.wrote == 0 {
		w.sniff(b)
	}
	w.wrote += int64(len(b))
	if w.head {
		return len(b), nil
	}
	if len(w.buffer)+len(b) <= mostBuffered {
		w.buffer = append(w.buffer, b...)
		return len(b), nil
	}
	if err := w.FlushError(); err != nil {
		return 0, err
	}
	return len(b), w.s.send(b)
}

// setBody makes a message the body so far, whose whole length the header does not tell. It is not
// copied, and given back when it has been sent.
func (w *http2Response) setBody(b *buffer.Buffer) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.memory, w.buffer, w.wrote, w.unsized = b, b.B, int64(len(b.B)), true
}

// sniff sets the type of a body that begins so, if no type is set.
func (w *http2Response) sniff(b []byte) {
	if len(b) > 0 && w.snapshot["Content-Type"] == nil && w.snapshot.Get("Content-Encoding") == "" {
		w.snapshot.Set("Content-Type", http.DetectContentType(b))
	}
}

// Flush sends what was written.
func (w *http2Response) Flush() { _ = w.FlushError() }

// FlushError is Flush, for [http.ResponseController].
func (w *http2Response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.sent {
		w.sendHeader(false)
	}
	b := w.buffer
	w.buffer = b[:0] // send copies what it is given
	return w.s.send(b)
}

// sendHeader sends the header; end says that there is neither a body nor a trailer.
func (w *http2Response) sendHeader(end bool) {
	w.sent = true
	header := w.snapshot
	if _, ok := header["Date"]; !ok {
		header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	fields := w.fields(w.status, header)
	w.s.tell(func() { w.s.h.m.Header(w.s.st, fields, end) })
}

// finish ends the response.
func (w *http2Response) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	trailer := w.trailer()
	if !w.sent && !w.unsized && w.declared < 0 && hasBody(w.status) && (w.wrote > 0 || !w.head) && w.wrote <= mostBuffered {
		w.snapshot.Set("Content-Length", strconv.FormatInt(w.wrote, 10))
	}
	h, s := w.s.h, w.s
	if !w.sent {
		end := len(trailer) == 0 && len(w.buffer) == 0
		w.sendHeader(end)
		if end {
			return
		}
	}
	s.tell(func() {
		s.memory = w.memory
		if h.m.Finish(s.st, w.buffer, trailer); s.st.Sent() {
			s.sentLocked()
		}
	})
}

// trailer returns the fields that the header has announced for the trailer, and those with
// [http.TrailerPrefix].
func (w *http2Response) trailer() (fields []http2.Field) {
	add := func(key string, values []string) {
		for _, value := range values {
			if name := strings.ToLower(key); http2.ValidField(name, value) {
				fields = append(fields, http2.Field{Name: name, Value: value, Sensitive: true})
			}
		}
	}
	for _, list := range w.snapshot["Trailer"] {
		for key := range strings.SplitSeq(list, ",") {
			key = http.CanonicalHeaderKey(strings.TrimSpace(key))
			add(key, w.header[key])
		}
	}
	for key, values := range w.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			add(name, values)
		}
	}
	slices.SortStableFunc(fields, func(a, b http2.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// fields returns a header as it is sent.
func (*http2Response) fields(status int, header http.Header) []http2.Field {
	fields := make([]http2.Field, 1, 1+len(header))
	fields[0] = http2.Field{Name: ":status", Value: strconv.Itoa(status)}
	for key, values := range header {
		if strings.HasPrefix(key, http.TrailerPrefix) {
			continue
		}
		switch key {
		case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
			continue
		}
		for _, value := range values {
			if name := strings.ToLower(key); http2.ValidField(name, value) {
				fields = append(fields, http2.Field{Name: name, Value: value})
			}
		}
	}
	slices.SortStableFunc(fields[1:], func(a, b http2.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// SetReadDeadline sets the time by which the next part of the body must come.
func (w *http2Response) SetReadDeadline(t time.Time) error {
	s := w.s
	s.h.machine.Lock()
	defer s.h.machine.Unlock()
	s.readBy.set(t, func() {
		s.h.machine.Lock()
		defer s.h.machine.Unlock()
		s.changed.Broadcast()
	})
	return nil
}

// SetWriteDeadline sets the time by which the client must have taken the response; then the stream is
// reset.
func (w *http2Response) SetWriteDeadline(t time.Time) error {
	w.s.h.machine.Lock()
	defer w.s.h.machine.Unlock()
	w.s.limitLocked(t)
	return nil
}

// limitLocked sets the time by which the client must have taken the response.
func (s *http2Stream) limitLocked(t time.Time) {
	s.writeBy.set(t, func() {
		s.h.tell(func() {
			if s.writeBy.passed() && s.gone == nil {
				s.h.m.Cancel(s.st, http2.InternalError)
				s.goneLocked(os.ErrDeadlineExceeded)
			}
		})
	})
}

// EnableFullDuplex does nothing: HTTP/2 is.
func (*http2Response) EnableFullDuplex() error { return nil }

// send sends a part of the body, and waits until the client's windows allow that.
func (s *http2Stream) send(b []byte) error {
	h := s.h
	for len(b) > 0 {
		h.machine.Lock()
		if s.gone != nil {
			h.machine.Unlock()
			return s.gone
		}
		n := h.m.Data(s.st, b)
		b = b[n:]
		h.machine.Unlock()
		h.flush()
		if len(b) > 0 {
			s.awaitWindow()
		}
	}
	return nil
}

// awaitWindow waits until Data can send again.
func (s *http2Stream) awaitWindow() {
	s.h.machine.Lock()
	defer s.h.machine.Unlock()
	for s.gone == nil && s.st.Waits() {
		s.changed.Wait()
	}
}
