package web

import (
	"bytes"
	"strconv"
)

// framing follows the requests on an HTTP/1 connection, so that a Read ends where a header
// or a body ends. It also detects what net/http repairs silently, such as a header with
// both Content-Length and Transfer-Encoding. It accepts less than net/http does, so the two
// never disagree about where a request ends. The zero value expects the first request.
type framing struct {
	part      part
	malformed string // why the request is refused, "" if it is well formed
	begun     bool   // a header has ended
	http2     bool   // the first line was HTTP/2's preface
	left      int64  // bytes of the body or chunk that have not arrived
	line      line
	head      head
}

// part is the part of a request that the next byte belongs to.
type part uint8

const (
	between   part = iota // nothing of the next request has arrived
	inHeader              // including the request line
	inBody                // of known length
	inSize                // the line before a chunk
	inChunk               // the chunk's data
	afterData             // the line end after the chunk's data
	inTrailer             // the lines after the last chunk
	unframed              // HTTP/2, another protocol, or a malformed request
)

// head is what a header says about its body.
type head struct {
	lines   int
	preface bool // the first line is that of HTTP/2's preface
	old     bool // the version is not HTTP/1.1
	sizes   int  // number of Content-Length fields
	size    int64
	chunked bool // there is a Transfer-Encoding field
	expects bool // there is an Expect field other than 100-continue
}

// line is a line's first and last bytes.
type line struct {
	start  [48]byte
	end    [10]byte // the last bytes of the line, right-aligned
	length int
}

// midHeader reports whether a header has begun and not ended.
func (f *framing) midHeader() bool { return f.part == inHeader }

// midBody reports whether a header has ended and its body has not.
func (f *framing) midBody() bool {
	return f.part > inHeader && f.part < unframed || f.malformed != ""
}

// next processes bytes up to the end of a header or body, and returns how many these are.
func (f *framing) next(b []byte) int {
	taken := 0
	for over := false; taken < len(b) && !over; {
		var n int
		n, over = f.step(b[taken:])
		taken += n
	}
	return taken
}

// step processes bytes of one part. over reports whether a header or body ends with them.
func (f *framing) step(b []byte) (n int, over bool) {
	switch f.part {
	case unframed:
		return len(b), false
	case between:
		if b[0] == '\r' || b[0] == '\n' { // net/http skips them
			return 1, false
		}
		f.part, f.head, f.line.length = inHeader, head{}, 0
		return 0, false
	case inBody, inChunk:
		n = int(min(int64(len(b)), f.left))
		if f.left -= int64(n); f.left > 0 {
			return n, false
		}
		if f.part == inBody {
			f.part = between
			return n, true
		}
		f.part = afterData
		return n, false
	case inHeader, inSize, afterData, inTrailer:
	}
	n = f.line.add(b)
	if b[n-1] != '\n' {
		return n, false
	}
	over = f.endLine()
	f.line.length = 0
	return n, over
}

// add takes bytes up to the end of the line.
func (l *line) add(b []byte) int {
	n := bytes.IndexByte(b, '\n') + 1
	if n == 0 {
		n = len(b)
	}
	if l.length < len(l.start) {
		copy(l.start[l.length:], b[:n])
	}
	keep := max(0, len(l.end)-n)
	copy(l.end[:keep], l.end[len(l.end)-keep:])
	copy(l.end[keep:], b[max(0, n-len(l.end)):n])
	l.length += n
	return n
}

// text returns the line without its end, at most as much as is kept.
func (l *line) text() []byte {
	text := l.start[:min(l.length, len(l.start))]
	if l.length <= len(l.start) {
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	}
	return text
}

// endsWith reports whether the line ends with s, which must not be longer than end.
func (l *line) endsWith(s string) bool {
	return l.length >= len(s) && bytes.HasSuffix(l.end[:], []byte(s))
}

// endLine ends a line. It reports whether a header or body ends with it.
func (f *framing) endLine() bool {
	text, strict := f.line.text(), f.line.endsWith("\r\n")
	switch {
	case f.part == inHeader:
		return f.endHeaderLine(text)
	case !strict:
		f.refuse("a line of the chunked body does not end with CR LF")
	case f.part == inSize:
		f.endSize(text)
	case f.part == inTrailer && len(text) == 0:
		f.part = between
		return true
	case f.part == afterData && len(text) > 0:
		f.refuse("a chunk is longer than it says")
	case f.part == afterData:
		f.part = inSize
	}
	return false
}

func (f *framing) refuse(why string) { f.part, f.malformed = unframed, why }

func (f *framing) endHeaderLine(text []byte) bool {
	h := &f.head
	h.lines++
	switch name, value, _ := bytes.Cut(text, []byte(":")); {
	case h.lines == 1:
		h.old = !f.line.endsWith("HTTP/1.1\r\n") && !f.line.endsWith("HTTP/1.1\n")
		h.preface = string(text) == "PRI * HTTP/2.0"
	case len(text) == 0:
		f.endHeader()
		return true
	case isField(name, "content-length"):
		h.sizes++
		if h.size = -1; f.line.length <= len(f.line.start) {
			h.size = parseSize(bytes.TrimSpace(value), 10) //nolint:mnd // decimal
		}
	case isField(name, "transfer-encoding"):
		h.chunked = true
	case isField(name, "expect"): // net/http answers other expectations itself, and would wait for the body
		h.expects = h.expects || !isField(bytes.TrimSpace(value), "100-continue")
	}
	return false
}

// isField reports whether a field has this name, which is in lower case.
func isField(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

// parseSize returns a length, -1 if digits are not one.
func parseSize(digits []byte, base int) int64 {
	for _, c := range digits {
		if c == '+' || c == '-' {
			return -1
		}
	}
	n, err := strconv.ParseInt(string(digits), base, 64)
	if err != nil {
		return -1
	}
	return n
}

// endHeader determines which body follows.
func (f *framing) endHeader() {
	f.begun = true
	switch h := f.head; {
	case h.preface && h.lines == 2: //nolint:mnd // the preface's first line and the empty one
		f.part, f.http2 = unframed, true
	case h.preface:
		f.refuse("it is the preface of HTTP/2, and has a header")
	case h.expects:
		f.refuse("it expects something else than 100-continue")
	case h.chunked && h.sizes > 0:
		f.refuse("it has both Content-Length and Transfer-Encoding")
	case h.chunked && h.old:
		f.refuse("it has a Transfer-Encoding, and is not of HTTP/1.1")
	case h.chunked:
		f.part = inSize
	case h.sizes > 1:
		f.refuse("it has more than one Content-Length")
	case h.size < 0:
		f.refuse("its Content-Length is not a length")
	case h.size > 0:
		f.part, f.left = inBody, h.size
	default:
		f.part = between
	}
}

// endSize begins a chunk, or the trailer.
func (f *framing) endSize(text []byte) {
	digits, _, _ := bytes.Cut(text, []byte(";"))
	switch f.left = parseSize(digits, 16); { //nolint:mnd // hexadecimal
	case f.left < 0 || f.left > maxChunk:
		f.refuse("the size of a chunk is not a size")
	case f.left == 0:
		f.part = inTrailer
	default:
		f.part = inChunk
	}
}

// maxChunk is the largest accepted chunk, in bytes: no server accepts a larger message.
const maxChunk = 1 << 40
