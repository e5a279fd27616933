package web

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
)

// gRPC-Web in text mode is gRPC-Web in base64, for clients that can't handle bytes:
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md. Here it is translated.
const (
	typeGRPCWeb     = "application/grpc-web"
	typeGRPCWebText = "application/grpc-web-text"
)

// untexted returns a request without text mode, and the writer of its response, which is in text
// mode if the client accepts nothing else. finish must be called after the response.
func untexted(w http.ResponseWriter, r *http.Request) (_ http.ResponseWriter, _ *http.Request, finish func()) {
	kind := strings.ToLower(r.Header.Get("Content-Type"))
	if !strings.HasPrefix(kind, typeGRPCWeb) {
		return w, r, func() {}
	}
	after, text := strings.CutPrefix(kind, typeGRPCWebText)
	accept := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
	asText := strings.Contains(accept, typeGRPCWebText) || text && !strings.Contains(accept, typeGRPCWeb)
	if text {
		copied := *r
		copied.Header = maps.Clone(r.Header)
		copied.Header.Set("Content-Type", typeGRPCWeb+after)
		copied.Body = &base64Body{ReadCloser: r.Body}
		r = &copied
	}
	if !asText {
		return w, r, func() {}
	}
	t := &textResponse{ResponseWriter: w}
	return t, r, t.finish
}

// base64Body decodes a body. Each of its pieces may be padded, as each may have been encoded on
// its own.
type base64Body struct {
	io.ReadCloser

	in     [4 << 10]byte
	have   int    // bytes of in that are not decoded
	out    []byte // decoded, and not read; a part of buffer
	buffer [3 << 10]byte
	failed error
}

// Read reads the decoded body.
func (b *base64Body) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.failed != nil {
			return 0, b.failed
		}
		b.fill()
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

const quantum = 4 // characters that are decoded together

// fill decodes what the next read of the body makes whole.
func (b *base64Body) fill() {
	n, err := b.ReadCloser.Read(b.in[b.have:])
	b.have += n
	whole := b.have - b.have%quantum
	decoded, bad := decodePieces(b.buffer[:0], b.in[:whole])
	b.out = decoded
	b.have = copy(b.in[:], b.in[whole:b.have])
	switch {
	case bad != nil:
		b.failed = malformedBody(bad)
	case errors.Is(err, io.EOF) && b.have > 0:
		b.failed = malformedBody(errors.New("its base64 is cut off"))
	default:
		b.failed = err
	}
}

// decodePieces appends the decoded form of base64 with padding at any place to dst.
func decodePieces(dst, src []byte) ([]byte, error) {
	if bytes.ContainsAny(src, "\r\n") { // base64.Encoding skips them, so quanta would not be whole
		return dst, errors.New("its base64 has line breaks")
	}
	for len(src) > 0 {
		end := len(src)
		if pad := bytes.IndexByte(src, '='); pad >= 0 {
			end = pad - pad%quantum + quantum
		}
		var err error
		if dst, err = base64.StdEncoding.AppendDecode(dst, src[:end]); err != nil {
			return dst, errors.New("its base64 is invalid")
		}
		src = src[end:]
	}
	return dst, nil
}

// textResponse encodes a response of gRPC-Web, each of its parts that is flushed on its own.
type textResponse struct {
	http.ResponseWriter

	decided bool
	encodes bool   // else it is the response of another protocol
	rest    []byte // up to two bytes that are not encoded yet
}

// Unwrap is for [http.ResponseController].
func (t *textResponse) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader writes the header.
func (t *textResponse) WriteHeader(status int) {
	if !t.decided {
		t.decided = true
		if after, ok := strings.CutPrefix(t.Header().Get("Content-Type"), typeGRPCWeb); ok {
			t.encodes = true
			t.Header().Set("Content-Type", typeGRPCWebText+after)
		}
	}
	t.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (t *textResponse) Write(b []byte) (int, error) {
	if !t.decided {
		t.WriteHeader(http.StatusOK)
	}
	if !t.encodes {
		return t.ResponseWriter.Write(b)
	}
	all := append(t.rest, b...) //nolint:gocritic // rest is replaced
	whole := len(all) - len(all)%3
	if _, err := t.ResponseWriter.Write(base64.StdEncoding.AppendEncode(nil, all[:whole])); err != nil {
		return 0, err
	}
	t.rest = append(t.rest[:0], all[whole:]...)
	return len(b), nil
}

// Flush sends what has been written.
func (t *textResponse) Flush() { _ = t.FlushError() }

// FlushError is Flush, for [http.ResponseController].
func (t *textResponse) FlushError() error {
	if err := t.pad(); err != nil {
		return err
	}
	return http.NewResponseController(t.ResponseWriter).Flush()
}

// pad writes the rest, padded.
func (t *textResponse) pad() error {
	if len(t.rest) == 0 {
		return nil
	}
	_, err := t.ResponseWriter.Write(base64.StdEncoding.AppendEncode(nil, t.rest))
	t.rest = t.rest[:0]
	return err
}

// finish ends the response.
func (t *textResponse) finish() { _ = t.pad() } // an error means that the client is gone

// responseOf returns the connection's writer below w; nil if there is none, as in tests.
func responseOf(w http.ResponseWriter) *response {
	if t, ok := w.(*textResponse); ok {
		w = t.ResponseWriter
	}
	resp, _ := w.(*response)
	return resp
}
