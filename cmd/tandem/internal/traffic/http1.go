package traffic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keysOf returns the keys of metadata or headers, sorted. Their values may be secrets.
func keysOf[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

// withoutQuery returns a request target without its query, which may hold secrets.
func withoutQuery(target string) string {
	path, _, found := strings.Cut(target, "?")
	if found {
		path += "?…"
	}
	return path
}

// phase is where in a message of HTTP/1 a side is.
type phase int

const (
	inHead    phase = iota
	inBody          // of a known length
	inSize          // of a chunk
	inChunk         // in a chunk, or in the line end after it
	inTrailer       // behind the last chunk
	toEnd           // a body that ends with the connection
)

// http1 decodes HTTP/1.
type http1 struct {
	c     *Conversation
	sides [2]http1Side
	open  []asked // requests without a response
}

type http1Side struct {
	in    input
	phase phase
	left  int64 // bytes of the body or of the chunk
	size  int64 // bytes of the body so far
	known bool  // the length is in the head
	start []byte
	what  asked // the message
}

// asked is a request.
type asked struct {
	method, line string
	at           time.Time
}

func newHTTP1(c *Conversation) *http1 { return &http1{c: c} }

func (d *http1) feed(from Side, p []byte) error {
	s := &d.sides[from]
	return s.in.each(p, maxHead, func(p []byte) (int, error) {
		switch s.phase {
		case inBody, inChunk:
			n := int(min(int64(len(p)), s.left))
			body := p[:n]
			if s.phase == inChunk { // the last two bytes are the end of the line
				body = p[:max(0, min(int64(n), s.left-2))]
			}
			s.count(d.c, body)
			if s.left -= int64(n); s.left > 0 {
				return n, nil
			}
			if s.phase == inChunk {
				s.phase = inSize
				return n, nil
			}
			d.end(s)
			return n, nil
		case toEnd:
			s.count(d.c, p)
			return len(p), nil
		case inSize, inTrailer:
			return d.line(s, p)
		default:
			return d.head(from, s, p)
		}
	})
}

// count counts bytes of a body, and keeps its beginning if payloads are shown.
func (s *http1Side) count(c *Conversation, p []byte) {
	s.size += int64(len(p))
	if room := c.options.Payload + 1 - len(s.start); c.options.Payload > 0 && room > 0 {
		s.start = append(s.start, p[:min(len(p), room)]...)
	}
}

// end ends a message.
func (d *http1) end(s *http1Side) {
	if s.size > 0 && (!s.known || d.c.options.Payload > 0) {
		d.c.say(Event{Kind: "data", Method: s.what.line, Size: s.size, Payload: d.c.payload(s.start)})
	}
	*s = http1Side{in: s.in}
}

// closed ends bodies that end with the connection.
func (d *http1) closed() {
	for side := range d.sides {
		if s := &d.sides[side]; s.phase == toEnd {
			d.c.from = Side(side)
			d.end(s)
		}
	}
}

// line reads the size of a chunk, or a line of a trailer.
func (d *http1) line(s *http1Side, p []byte) (int, error) {
	at := bytes.IndexByte(p, '\n')
	if at < 0 {
		return 0, nil
	}
	text := strings.TrimRight(string(p[:at]), "\r")
	if s.phase == inTrailer {
		if text == "" {
			d.end(s)
		}
		return at + 1, nil
	}
	text, _, _ = strings.Cut(text, ";")
	n, err := strconv.ParseInt(strings.TrimSpace(text), 16, 62)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the size of a chunk is %.20q", text)
	}
	if s.phase = inTrailer; n > 0 {
		s.phase, s.left = inChunk, n+2 //nolint:mnd // CR and LF
	}
	return at + 1, nil
}

// head reads a head.
func (d *http1) head(from Side, s *http1Side, p []byte) (int, error) {
	n := headLen(p)
	switch {
	case n == 0 && len(p) > maxHead:
		return 0, errors.New("the head is too long")
	case n == 0:
		return 0, nil
	}
	in := bufio.NewReader(bytes.NewReader(p[:n]))
	if from == Client {
		return n, d.request(s, in)
	}
	return n, d.response(s, in)
}

// headLen returns the length of a head with the empty line behind it, 0 if that is not there yet.
func headLen(p []byte) int {
	for _, end := range []string{"\r\n\r\n", "\n\n"} {
		if at := bytes.Index(p, []byte(end)); at >= 0 {
			return at + len(end)
		}
	}
	return 0
}

func (d *http1) request(s *http1Side, in *bufio.Reader) error {
	r, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	what := asked{method: r.Method, line: r.Method + " " + withoutQuery(r.RequestURI), at: d.c.now}
	if len(d.open) >= maxOpen {
		return errors.New("too many requests are open")
	}
	d.open = append(d.open, what)
	d.c.say(Event{Kind: "request", Method: what.line, Size: max(r.ContentLength, 0), Detail: strings.TrimSpace(r.Proto + " " + r.Host + " " + r.Header.Get("Content-Type"))})
	s.begin(what, r.ContentLength, r.TransferEncoding)
	return nil
}

// begin begins the body of a message. A length below 0 is not known.
func (s *http1Side) begin(what asked, length int64, encoding []string) {
	s.what, s.known = what, length >= 0 && len(encoding) == 0
	switch {
	case len(encoding) > 0:
		s.phase = inSize
	case length > 0:
		s.phase, s.left = inBody, length
	case length < 0:
		s.phase = toEnd
	}
}

func (d *http1) response(s *http1Side, in *bufio.Reader) error {
	what := asked{method: http.MethodGet, at: d.c.now}
	if len(d.open) > 0 {
		what = d.open[0]
	}
	r, err := http.ReadResponse(in, &http.Request{Method: what.method})
	if err != nil {
		return err
	}
	_ = r.Body.Close() // its bytes are not in this reader
	e := Event{Kind: "response", Method: what.line, Status: r.Status, Took: d.c.now.Sub(what.at).Seconds(), Size: max(r.ContentLength, 0)}
	e.Detail = strings.TrimSpace(r.Proto + " " + r.Header.Get("Content-Type"))
	d.c.say(e)
	switch {
	case r.StatusCode == http.StatusSwitchingProtocols || what.method == http.MethodConnect && r.StatusCode/100 == 2:
		return fmt.Errorf("the connection becomes one of another protocol: %s", strings.TrimSpace(r.Header.Get("Upgrade")))
	case r.StatusCode < http.StatusOK: // more of the response follows
		return nil
	}
	if len(d.open) > 0 {
		d.open = d.open[1:]
	}
	if what.method == http.MethodHead || r.Body == http.NoBody {
		return nil
	}
	s.begin(what, r.ContentLength, r.TransferEncoding)
	return nil
}
