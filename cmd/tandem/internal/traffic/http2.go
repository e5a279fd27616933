package traffic

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
)

// The frames of HTTP/2 that are decoded, and their flags (RFC 9113, section 6).
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	framePush         = 5
	frameGoAway       = 7
	frameContinuation = 9

	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	http2Header = 9 // bytes
	maxTable    = 64 << 10
	firstTable  = 4096 // size of the dynamic table at first
)

// http2 decodes HTTP/2.
type http2 struct {
	c       *Conversation
	sides   [2]http2Side
	streams map[uint32]*http2Stream
}

type http2Side struct {
	in       input
	prefaced bool
	skip     int // bytes of a frame that are only counted
	frame    http2Frame
	headers  *hpack.Decoder
	block    []byte     // of headers that go on
	began    http2Frame // the frame that began them
	fields   fields
}

type http2Frame struct {
	length      int
	kind, flags byte
	stream      uint32
}

// fields are the headers that are shown.
type fields struct{ method, path, authority, status, contentType, grpcStatus, grpcMessage string }

type http2Stream struct {
	line   string
	began  time.Time
	size   [2]int64
	start  [2][]byte
	ended  [2]bool
	status string // of gRPC
}

func newHTTP2(c *Conversation) *http2 {
	d := &http2{c: c, streams: make(map[uint32]*http2Stream)}
	for i := range d.sides {
		s := &d.sides[i]
		s.headers = hpack.NewDecoder(firstTable, func(f hpack.HeaderField) { s.fields.take(f) })
		s.headers.SetAllowedMaxDynamicTableSize(maxTable)
		s.headers.SetMaxStringLength(maxHead)
	}
	d.sides[Server].prefaced = true
	return d
}

func (f *fields) take(h hpack.HeaderField) {
	switch h.Name {
	case ":method":
		f.method = h.Value
	case ":path":
		f.path = h.Value
	case ":authority":
		f.authority = h.Value
	case ":status":
		f.status = h.Value
	case "content-type":
		f.contentType = h.Value
	case "grpc-status":
		f.grpcStatus = h.Value
	case "grpc-message":
		f.grpcMessage = h.Value
	}
}

func (d *http2) feed(from Side, p []byte) error {
	s := &d.sides[from]
	return s.in.each(p, maxHead+http2Header, func(p []byte) (int, error) {
		switch {
		case !s.prefaced:
			if len(p) < len(http2Preface) {
				return 0, nil
			}
			s.prefaced = true
			return len(http2Preface), nil
		case s.skip > 0:
			n := min(len(p), s.skip)
			s.skip -= n
			d.block(from, s, p[:n])
			return n, nil
		case len(p) < http2Header:
			return 0, nil
		}
		f := parseHTTP2(p)
		switch f.kind {
		case frameHeaders, frameContinuation, framePush, frameReset, frameGoAway:
		default: // it is not needed as a whole
			s.frame, s.skip = f, f.length
			d.skipped(from, s)
			return http2Header, nil
		}
		if f.length > maxHead {
			return 0, fmt.Errorf("a frame of %d bytes", f.length)
		}
		n := http2Header + f.length
		if len(p) < n {
			return 0, nil
		}
		return n, d.whole(from, s, f, p[http2Header:n])
	})
}

func parseHTTP2(p []byte) http2Frame {
	const reserved = 1 << 31
	return http2Frame{
		length: int(p[0])<<16 | int(p[1])<<8 | int(p[2]), kind: p[3], flags: p[4],
		stream: binary.BigEndian.Uint32(p[5:http2Header]) &^ reserved,
	}
}

// skipped says what there is to say of a frame before its payload.
func (d *http2) skipped(from Side, s *http2Side) {
	f := s.frame
	if f.kind == frameData {
		if f.length == 0 {
			d.block(from, s, nil)
		}
		return
	}
	if d.c.options.All {
		names := map[byte]string{2: "priority", 4: "settings", 6: "ping", 8: "window"}
		d.c.say(Event{Kind: cmp.Or(names[f.kind], fmt.Sprintf("frame %d", f.kind)), Call: streamNumber(f.stream), Size: int64(f.length)})
	}
}

// streamNumber returns the number of a stream, "" for the connection.
func streamNumber(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// block counts bytes of a data frame, with its padding.
func (d *http2) block(from Side, s *http2Side, p []byte) {
	st := d.streams[s.frame.stream]
	if s.frame.kind != frameData || st == nil {
		return
	}
	st.size[from] += int64(len(p))
	if room := d.c.options.Payload + 1 - len(st.start[from]); d.c.options.Payload > 0 && room > 0 {
		st.start[from] = append(st.start[from], p[:min(len(p), room)]...)
	}
	if s.skip == 0 && s.frame.flags&flagEndStream != 0 {
		d.end(from, s.frame.stream, st)
	}
}

// whole handles a frame whose payload is there.
func (d *http2) whole(from Side, s *http2Side, f http2Frame, p []byte) error {
	const number = 4 // bytes of a stream's number, or of a code
	switch f.kind {
	case frameReset:
		if len(p) < number {
			return errors.New("a short frame")
		}
		if st := d.streams[f.stream]; st != nil {
			d.c.say(Event{Kind: "reset", Call: streamNumber(f.stream), Method: st.line, Status: fmt.Sprintf("error %d", binary.BigEndian.Uint32(p)), Took: d.c.now.Sub(st.began).Seconds()})
			delete(d.streams, f.stream)
		}
		return nil
	case frameGoAway:
		if len(p) < 2*number {
			return errors.New("a short frame")
		}
		d.c.say(Event{Kind: "goaway", Detail: strings.TrimSuffix(fmt.Sprintf("error %d: %.200s", binary.BigEndian.Uint32(p[number:]), p[2*number:]), ": ")})
		return nil
	case frameContinuation:
		if s.block == nil || f.stream != s.began.stream {
			return errors.New("headers that go on without a beginning")
		}
		s.block = append(s.block, p...)
	default:
		p, err := unpadded(f, p)
		if err != nil {
			return err
		}
		s.block, s.began, s.fields = append([]byte{}, p...), f, fields{}
	}
	if len(s.block) > maxHead {
		return errors.New("headers that are too long")
	}
	if f.flags&flagEndHeaders == 0 {
		return nil
	}
	_, err := s.headers.Write(s.block)
	if err = errors.Join(err, s.headers.Close()); err != nil {
		return err
	}
	s.block = nil
	if s.began.kind == framePush {
		return nil
	}
	return d.head(from, s)
}

// unpadded returns the block of a frame of headers.
func unpadded(f http2Frame, p []byte) ([]byte, error) {
	padding := 0
	if f.flags&flagPadded != 0 && len(p) > 0 {
		padding, p = int(p[0]), p[1:]
	}
	before := 0
	switch {
	case f.kind == framePush:
		before = 4 // the number of the promised stream
		// a promise has no priority
	case f.flags&flagPriority != 0:
		before = 5 // the stream it depends on, and a weight
	}
	if len(p) < before+padding {
		return nil, errors.New("a short frame")
	}
	return p[before : len(p)-padding], nil
}

// head handles complete headers.
func (d *http2) head(from Side, s *http2Side) error {
	n, f := s.began.stream, &s.fields
	st := d.streams[n]
	switch {
	case f.method != "" && from == Client:
		if len(d.streams) >= maxOpen {
			return errors.New("too many streams are open")
		}
		st = &http2Stream{line: f.method + " " + withoutQuery(f.path), began: d.c.now}
		d.streams[n] = st
		d.c.say(Event{Kind: "request", Call: streamNumber(n), Method: st.line, Detail: strings.TrimSpace(f.authority + " " + f.contentType)})
	case st == nil:
		return nil // a stream that is over
	case f.status != "":
		d.c.say(Event{Kind: "response", Call: streamNumber(n), Method: st.line, Status: f.status, Took: d.c.now.Sub(st.began).Seconds(), Detail: f.contentType})
	}
	if f.grpcStatus != "" {
		st.status = strings.TrimSpace(fmt.Sprintf("grpc-status %s %.200s", f.grpcStatus, f.grpcMessage))
	}
	if s.began.flags&flagEndStream != 0 {
		d.end(from, n, st)
	}
	return nil
}

// end says that a side has ended a stream, with the size of what it has sent.
func (d *http2) end(from Side, n uint32, st *http2Stream) {
	if st.ended[from] {
		return
	}
	st.ended[from] = true
	e := Event{Kind: "end", Call: streamNumber(n), Method: st.line, Size: st.size[from], Payload: d.c.payload(st.start[from])}
	if from == Server {
		e.Status, e.Took = st.status, d.c.now.Sub(st.began).Seconds()
	}
	if from == Server || e.Size > 0 {
		d.c.say(e)
	}
	if st.ended[Client] && st.ended[Server] {
		delete(d.streams, n)
	}
}
