package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
)

// plainStream is a stream to a plain HTTP caller, without envelopes. The request is one message
// of JSON, or one a line; the response is a message a line, server-sent events, or one message
// (see streamForms). Its error is an HTTP status with JSON as that of a unary call, if nothing
// was sent before, else the last line or event.
type plainStream struct {
	x       *exchange
	form    string
	in      *reserving // the body; nil if the message is in the query
	lines   *lineBody  // below in; nil if the request is one message
	packed  bool       // the request is compressed
	over    error      // what Receive returns from now on
	begun   bool       // the header was written
	only    []byte     // the message of a response with one
	several bool       // a response with one message should have had another
	beats   *time.Timer
	trailer http.Header
}

// servePlain makes a call of a plainStream.
func (g *gateway) servePlain(w http.ResponseWriter, x *exchange) {
	p := x.plain
	timeout, err := timeoutOf(x.req)
	if err == nil {
		err = p.open(w)
	}
	if err != nil {
		g.refuse(w, x, err, func(err error) { g.fail(w, x, err) })
		return
	}
	ctx, cancel := context.WithCancel(x.req.Context())
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	if err := x.admit(context.WithValue(ctx, exchangeKey{}, x)); err != nil {
		_ = g.failures.Write(x.gate, x.req, err) // the gate knows whether it was answered
		return
	}
	if p.form == typeEvents {
		p.beats = time.AfterFunc(time.Hour, p.beat)
		p.beats.Reset(heartbeat) // only now, as beat uses p.beats
		defer p.beats.Stop()
	}
	_ = x.streaming(p) // the error is x.err
	p.finish(g)
}

// timeoutOf returns the time that a request gives its call; 0 for no limit.
func timeoutOf(r *http.Request) (time.Duration, error) {
	text := r.Header.Get("Connect-Timeout-Ms")
	if text == "" {
		return 0, nil
	}
	const digits = 10 // Connect's limit
	ms, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) > digits {
		return 0, tandem.Errorf(tandem.InvalidArgument, "Connect-Timeout-Ms: %.20q is not a number of milliseconds with at most 10 digits", text)
	}
	return max(1, time.Duration(ms)*time.Millisecond), nil
}

// open prepares reading the request.
func (p *plainStream) open(w http.ResponseWriter) error {
	x := p.x
	if x.req.Method == http.MethodGet {
		return nil // the message is in the query, or a route says it
	}
	switch encoding := x.req.Header.Get("Content-Encoding"); {
	case encoding == "" || encoding == "identity":
	case encoding == "gzip" && !x.kind.lines:
		p.packed = true
	default:
		return tandem.Errorf(tandem.Unimplemented, "Content-Encoding %.50q: %s is taken as it is, and a single message with gzip", encoding, typeLines)
	}
	if x.req.ProtoMajor < 2 {
		_ = x.control.EnableFullDuplex() // if it fails, clients that send all before they read still work
	}
	if x.kind.lines {
		p.lines = &lineBody{ReadCloser: x.req.Body, pacer: x.newStreamBody(w, nil)}
		p.in = &reserving{ReadCloser: p.lines, x: x, size: -1}
		return nil
	}
	most := int64(x.method.MaxMessage) + stallBytes
	body := &timedBody{ReadCloser: x.req.Body, w: w, stall: x.conn.StallTimeout(), most: most}
	p.in = &reserving{ReadCloser: body, x: x, size: x.req.ContentLength}
	return nil
}

// ResponseHeader returns the header that is sent with the first message.
func (p *plainStream) ResponseHeader() http.Header { return p.x.gate.Header() }

// ResponseTrailer returns what is sent after the last message.
func (p *plainStream) ResponseTrailer() http.Header { return p.trailer }

// Receive reads the next message into m, a *message.
func (p *plainStream) Receive(m any) error {
	if p.over != nil {
		return p.over
	}
	b, err := p.receive()
	if err != nil {
		p.over = err
		return err
	}
	m.(*message).b = b //nolint:forcetypeassert // receive passes nothing else
	return nil
}

func (p *plainStream) receive() ([]byte, error) {
	if p.lines != nil {
		return p.receiveLine()
	}
	p.over = io.EOF
	switch {
	case p.in == nil && p.x.route != nil:
		return nil, nil
	case p.in == nil:
		return queryText(p.x)
	}
	var b []byte
	if p.packed {
		b = append(b, p.x.mark...)
	}
	return p.read(b)
}

// receiveLine reads the next line that is not blank.
func (p *plainStream) receiveLine() ([]byte, error) {
	for p.lines.next() {
		*p.in = reserving{ReadCloser: p.lines, x: p.x, size: -1}
		b, err := p.read(nil)
		if err != nil || len(bytes.TrimSpace(b)) > 0 {
			return b, err
		}
		p.x.memory.Release()
	}
	return nil, io.EOF
}

// read appends a message to b.
func (p *plainStream) read(b []byte) ([]byte, error) {
	most := len(b) + p.x.method.MaxMessage
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := p.in.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > most:
			return nil, tandem.Errorf(tandem.ResourceExhausted, "message is larger than the %d bytes that the method takes", p.x.method.MaxMessage)
		case errors.Is(err, io.EOF):
			return b, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, tandem.Errorf(tandem.DeadlineExceeded, "the request has not come on for %v: see WithStallTimeout", p.x.conn.StallTimeout())
		case err != nil:
			return nil, p.lost(err)
		}
		if late := p.x.overdue(); late != nil {
			return nil, late
		}
	}
}

// lost returns the error of a call whose client can't be read from, or written to.
func (p *plainStream) lost(err error) error {
	if ctx := p.x.ctx.Err(); ctx != nil {
		return tandem.AsError(ctx)
	}
	if converted := fromConnect(err); tandem.CodeOf(converted) != tandem.Unknown {
		return converted
	}
	return tandem.Errorf(tandem.Canceled, "the client is gone: %w", err)
}

// queryText returns the message in the query of a GET, as [Connect's clients] send it.
//
// [Connect's clients]: https://connectrpc.com/docs/protocol#unary-get-request
func queryText(x *exchange) ([]byte, error) {
	q := x.req.URL.Query()
	b := []byte(q.Get("message"))
	if q.Get("base64") == "1" {
		var err error
		if b, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(string(b), "=")); err != nil {
			return nil, tandem.Errorf(tandem.InvalidArgument, "message of the query: %w", err)
		}
	}
	switch q.Get("compression") {
	case "", "identity":
		return b, nil
	case "gzip":
		return append(bytes.Clone(x.mark), b...), nil
	}
	return nil, tandem.Errorf(tandem.Unimplemented, "compression %.50q of the query: gzip and identity are understood", q.Get("compression"))
}

// Send writes a message, a *message; only the header if m is nil.
func (p *plainStream) Send(m any) error {
	if p.form == typeJSON {
		return p.keep(m)
	}
	p.begin()
	if m != nil {
		b, err := onOneLine(m.(*message).b) //nolint:forcetypeassert // send passes nothing else
		if err != nil {
			return err
		}
		if err := p.write(p.frame(b)); err != nil {
			return err
		}
	}
	return p.flush()
}

// keep keeps the only message of a response.
func (p *plainStream) keep(m any) error {
	switch {
	case m == nil:
		return nil
	case p.only != nil:
		p.several = true
		return errSeveral()
	}
	p.only = m.(*message).b //nolint:forcetypeassert // send passes nothing else
	return nil
}

func errSeveral() error {
	return tandem.Errorf(tandem.InvalidArgument, "the method sends more than one message: send Accept: %s or %s", typeEvents, typeLines)
}

// onOneLine returns JSON without line breaks, which a json.RawMessage may have.
func onOneLine(b []byte) ([]byte, error) {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b, nil
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return nil, tandem.Errorf(tandem.Internal, "message: %w", err)
	}
	return out.Bytes(), nil
}

// frame returns a message as the response has it.
func (p *plainStream) frame(b []byte) []byte {
	if p.form == typeEvents {
		return append(append([]byte("data: "), b...), "\n\n"...)
	}
	return append(slices.Clip(b), '\n')
}

// begin writes the header of a response with several messages.
func (p *plainStream) begin() {
	if p.begun {
		return
	}
	p.begun = true
	h := p.ResponseHeader()
	h.Set("Content-Type", p.form)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	h.Set("X-Accel-Buffering", "no") // nginx would hold messages back
	p.x.gate.WriteHeader(http.StatusOK)
}

func (p *plainStream) write(b []byte) error {
	if _, err := p.x.gate.Write(b); err != nil {
		return p.lost(err)
	}
	return nil
}

func (p *plainStream) flush() error {
	if err := p.x.control.Flush(); err != nil {
		return p.lost(err)
	}
	return nil
}
