package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Sent is what a client has sent.
type http2Sent struct {
	bursts   [][]http2SentFrame
	requests map[uint32]*http2SentRequest
}

type http2SentFrame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte
	length  int // of the payload, as the head says
}

func (f *http2SentFrame) has(flag http2.Flags) bool { return f.flags.Has(flag) }

// isHeader reports whether it has a part of a header block.
func (f *http2SentFrame) isHeader() bool {
	return f.kind == http2.FrameHeaders || f.kind == http2.FrameContinuation
}

// http2SentRequest is a request as the client has sent it, with its trailer.
type http2SentRequest struct {
	fields []hpack.HeaderField
	length int // of the body, with padding
	ended  bool
	reset  bool // by the client
}

func (r *http2SentRequest) has(f func(hpack.HeaderField) bool) bool {
	return r != nil && slices.ContainsFunc(r.fields, f)
}

func (r *http2SentRequest) count(name string) (n int) {
	r.has(func(f hpack.HeaderField) bool {
		if f.Name == name {
			n++
		}
		return false
	})
	return n
}

// readHTTP2 reads the frames of bursts, as far as they are frames.
func readHTTP2(bursts []http2Burst) *http2Sent {
	s := &http2Sent{requests: map[uint32]*http2SentRequest{}}
	var r *http2SentRequest
	d := hpack.NewDecoder(4096, func(f hpack.HeaderField) { r.fields = append(r.fields, f) })
	for i, b := range bursts {
		frames := b.bytes
		if i == 0 {
			frames = frames[len(http2.ClientPreface):]
		}
		var list []http2SentFrame
		for len(frames) >= 9 {
			length := int(binary.BigEndian.Uint32(frames) >> 8)
			n := min(length, len(frames)-9)
			f := http2SentFrame{http2.FrameType(frames[3]), http2.Flags(frames[4]), binary.BigEndian.Uint32(frames[5:]) & (1<<31 - 1), frames[9 : 9+n], length}
			frames = frames[9+n:]
			list = append(list, f)
			if r = s.requests[f.stream]; r == nil {
				r = &http2SentRequest{}
				s.requests[f.stream] = r
			}
			if f.isHeader() {
				_, _ = d.Write(f.block())
			} else if f.kind == http2.FrameData {
				r.length += len(f.payload)
			}
			r.reset = r.reset || f.kind == http2.FrameRSTStream
			r.ended = r.ended || f.kind <= http2.FrameHeaders && f.has(http2.FlagDataEndStream)
		}
		s.bursts = append(s.bursts, list)
	}
	return s
}

// tableSizes counts the settings of a table's size.
func (s *http2Sent) tableSizes() (n int) {
	for _, f := range slices.Concat(s.bursts...) {
		for b := f.payload; f.kind == http2.FrameSettings && len(b) >= 6; b = b[6:] {
			if http2.SettingID(binary.BigEndian.Uint16(b)) == http2.SettingHeaderTableSize {
				n++
			}
		}
	}
	return n
}

// block returns the header block of HEADERS or CONTINUATION.
func (f *http2SentFrame) block() []byte {
	b := f.payload
	if f.kind == http2.FrameHeaders && f.has(http2.FlagHeadersPadded) && len(b) > 0 {
		b = b[1:max(1, len(b)-int(b[0]))]
	}
	if f.kind == http2.FrameHeaders && f.has(http2.FlagHeadersPriority) {
		b = b[min(5, len(b)):]
	}
	return b
}

// String lists the frames and requests, for an error.
func (s *http2Sent) String() string {
	var b strings.Builder
	for i, list := range s.bursts {
		fmt.Fprintf(&b, "burst %d:", i)
		for _, f := range list {
			fmt.Fprintf(&b, " %v(%d flags %x, %.20x)", f.kind, f.stream, f.flags, f.payload)
		}
		b.WriteString("\n")
	}
	for _, id := range slices.Sorted(maps.Keys(s.requests)) {
		fmt.Fprintf(&b, "%d: %d %v", id, s.requests[id].length, s.requests[id].ended)
		for _, f := range s.requests[id].fields {
			fmt.Fprintf(&b, " %s=%.20q", f.Name, f.Value)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// http2Ending is the first burst after which one of the engines has ended the connection.
type http2Ending struct {
	theirs, ours       string // how it ended; empty if it did not yet
	theirView, ourView *http2View
	frames             []http2SentFrame
}

// ending returns the burst, too.
func (s *http2Sent) ending(theirs, ours *http2View) (*http2Ending, int) {
	burst := theirs.burst
	if theirs.end == "" || ours.end != "" && ours.burst < theirs.burst {
		burst = ours.burst
	}
	e := &http2Ending{theirView: theirs, ourView: ours, frames: s.bursts[burst]}
	if theirs.burst == burst {
		e.theirs = theirs.end
	}
	if ours.burst == burst {
		e.ours = ours.end
	}
	return e, burst
}

// isError reports whether the end of a connection is an error of its client.
func isError(end string) bool { return end != "" && end != "leaves" && end != "closed" }

func (e *http2Ending) has(f func(f *http2SentFrame) bool) bool {
	return slices.ContainsFunc(e.frames, func(frame http2SentFrame) bool { return f(&frame) })
}

// http2Endings are the ends of a connection that may differ. The sections are those of RFC 9113.
var http2Endings = []struct {
	why  string
	same func(e *http2Ending) bool
}{
	{"5.4.1: a frame with several faults has any of their codes, and GOAWAY should be sent: net/http leaves it out after some", func(e *http2Ending) bool {
		return isError(e.ours) && (isError(e.theirs) || e.theirs == "closed")
	}},
	{"5.1: what comes for a stream that was reset is ignored; it ends net/http's connection, also if there it was malformed and is idle still", func(e *http2Ending) bool {
		return e.ours == "" && isError(e.theirs) && e.has(func(f *http2SentFrame) bool {
			theirs, ours := e.theirView.streams[f.stream], e.ourView.streams[f.stream]
			return theirs != nil && theirs.reset != "" || ours != nil && ours.reset != ""
		})
	}},
	{"5.1.1: a new stream's number is larger than all before; net/http forgets those of malformed requests", func(e *http2Ending) bool {
		return !isError(e.theirs) && isError(e.ours) && e.has(func(f *http2SentFrame) bool {
			for id, a := range e.theirView.streams {
				if f.kind == http2.FrameHeaders && f.stream < id && a.isMalformed() && a.status == "" {
					return true
				}
			}
			return false
		})
	}},
	{"5.1: HEADERS of a stream that has ended are refused when they begin, by net/http when the header is complete", func(e *http2Ending) bool {
		last := e.frames[max(0, len(e.frames)-1):]
		return e.theirs == "" && isError(e.ours) && len(last) == 1 && last[0].isHeader() && !last[0].has(http2.FlagHeadersEndHeaders)
	}},
	{"6.3: PRIORITY of another length than 5 resets its stream; it ends net/http's connection", func(e *http2Ending) bool {
		return e.ours == "" && e.theirs == http2.ErrCodeFrameSize.String() && e.has(func(f *http2SentFrame) bool { return f.kind == http2.FramePriority && len(f.payload) != 5 })
	}},
	{"6.5.3: settings are taken in their order, and may come twice in a frame; not so in net/http", func(e *http2Ending) bool {
		return e.ours == "" && e.theirs == http2.ErrCodeProtocol.String() && e.has(func(f *http2SentFrame) bool {
			seen := map[uint16]bool{}
			for b := f.payload; f.kind == http2.FrameSettings && len(b) >= 6; b = b[6:] {
				if id := binary.BigEndian.Uint16(b); seen[id] {
					return true
				} else {
					seen[id] = true
				}
			}
			return false
		})
	}},
	{"RFC 8441, section 3: only servers say ENABLE_CONNECT_PROTOCOL; net/http looks at its value", func(e *http2Ending) bool {
		return e.ours == "" && e.theirs == http2.ErrCodeProtocol.String() && e.has(func(f *http2SentFrame) bool {
			return f.kind == http2.FrameSettings && bytes.Contains(f.payload, setting(http2.SettingEnableConnectProtocol, 7)[:2])
		})
	}},
	{"5.1: WINDOW_UPDATE of an idle stream ends the connection; one by 0 resets net/http's stream", func(e *http2Ending) bool {
		return e.theirs == "" && isError(e.ours) && e.has(func(f *http2SentFrame) bool {
			return f.kind == http2.FrameWindowUpdate && f.length == 4 && binary.BigEndian.Uint32(f.payload)<<1 == 0
		})
	}},
	{"6.5.3: SETTINGS that acknowledge too much are ignored; they end net/http's connection", func(e *http2Ending) bool {
		return e.ours == "" && e.theirs == http2.ErrCodeProtocol.String() && e.has(func(f *http2SentFrame) bool {
			return f.kind == http2.FrameSettings && f.has(http2.FlagSettingsAck)
		})
	}},
	{"6.8: a client that sends GOAWAY may go on with its streams; net/http leaves, too", func(e *http2Ending) bool {
		return e.theirs == "leaves" && e.has(func(f *http2SentFrame) bool { return f.kind == http2.FrameGoAway })
	}},
	{"4.2: a frame may be as large as the server has said, 16 KiB; net/http's says 1 MiB", func(e *http2Ending) bool {
		return e.theirs == "" && e.ours == http2.ErrCodeFrameSize.String() && e.has(func(f *http2SentFrame) bool { return f.length > 16384 })
	}},
	{"5.1: HEADERS of a stream that has ended end the connection; those with malformed fields reset net/http's stream", func(e *http2Ending) bool {
		return e.theirs == "" && isError(e.ours) && e.has(func(f *http2SentFrame) bool {
			a := e.theirView.streams[f.stream]
			return f.isHeader() && a != nil && a.isMalformed()
		})
	}},
	{"6.2: too much padding of HEADERS ends the connection; it resets net/http's stream", func(e *http2Ending) bool {
		return e.theirs == "" && isError(e.ours) && e.has(func(f *http2SentFrame) bool {
			return f.kind == http2.FrameHeaders && f.has(http2.FlagHeadersPadded) && (f.length == 0 || int(f.payload[0])+6 > f.length)
		})
	}},
	{"5.1: a header that began before a stream has ended is ignored; it ends net/http's connection", func(e *http2Ending) bool {
		return e.ours == "" && isError(e.theirs) && len(e.frames) > 0 && e.frames[0].kind == http2.FrameContinuation
	}},
	{"8.1: a handler's wish to close the connection is lost with its response, if the request is reset meanwhile", func(e *http2Ending) bool {
		return (e.theirs == "leaves" || e.ours == "leaves") && e.has(func(f *http2SentFrame) bool {
			theirs, ours := e.theirView.streams[f.stream], e.ourView.streams[f.stream]
			return theirs != nil && ours != nil && theirs.reset != "" && ours.reset != ""
		})
	}},
}

// http2Difference is what the engines may do differently to a request.
type http2Difference struct {
	why  string
	same func(r *http2SentRequest, theirs, ours *http2Answer) bool
}

var http2Differences = []http2Difference{
	{"5.1: a stream that its client has reset is closed; net/http looks for faults of later frames", func(r *http2SentRequest, theirs, ours *http2Answer) bool {
		copied := *theirs
		copied.reset = ours.reset
		return r.reset && copied.String() == ours.String()
	}},
	{"RFC 9110, section 8.6: responses of up to 32 KiB have a Content-Length, net/http's of up to 4 KiB", func(_ *http2SentRequest, theirs, ours *http2Answer) bool {
		b := *ours
		b.header = slices.DeleteFunc(slices.Clone(b.header), func(s string) bool {
			n, err := strconv.Atoi(strings.TrimPrefix(s, "content-length: "))
			return err == nil && n > 4<<10 && n <= 32<<10
		})
		return theirs.ended && theirs.String() == b.String()
	}},
	{"the same message compresses to other bytes with another writer", func(_ *http2SentRequest, theirs, ours *http2Answer) bool {
		a, whole := theirs.unzipped()
		b, too := ours.unzipped()
		return theirs.status == ours.status && len(theirs.body) > 0 && theirs.body[0] == 1 && len(ours.body) > 0 && ours.body[0] == 1 && (a == b || !whole || !too)
	}},
	{"RFC 9110, section 10.1.1: of several fields Expect net/http takes the one that it knows", func(r *http2SentRequest, theirs, ours *http2Answer) bool {
		return r.count("expect") > 1 && theirs.status == ours.status
	}},
	{"8.1.1: a Content-Length that is no number, or not the body's length, is malformed; net/http tells the handler, or does not look", func(r *http2SentRequest, _, ours *http2Answer) bool {
		return ours.isMalformed() && r.count("content-length") > 0
	}},
	{"8.2.2 and 8.1.1: fields of HTTP/1.1 are malformed; net/http answers with 400, which it may, also to two fields TE: trailers", func(r *http2SentRequest, theirs, ours *http2Answer) bool {
		return theirs.status == "400" && (ours.isMalformed() || r.count("te") > 1) && r.has(func(f hpack.HeaderField) bool {
			return f.Name == "te" || slices.Contains([]string{"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}, f.Name)
		})
	}},
	{"8.2.1: a value that begins or ends with a blank is malformed; net/http takes it", func(r *http2SentRequest, _, ours *http2Answer) bool {
		return ours.isMalformed() && r.has(func(f hpack.HeaderField) bool { return strings.Trim(f.Value, " \t") != f.Value })
	}},
	{"8.3.1: a path begins with a slash, or is an asterisk; net/http takes a URL", func(r *http2SentRequest, _, ours *http2Answer) bool {
		return ours.isMalformed() && r.has(func(f hpack.HeaderField) bool { return f.Name == ":path" && !strings.HasPrefix(f.Value, "/") })
	}},
	{"8.3.1: the scheme is not restricted to http and https; net/http refuses others", func(r *http2SentRequest, theirs, _ *http2Answer) bool {
		return theirs.isMalformed() && r.has(func(f hpack.HeaderField) bool { return f.Name == ":scheme" && f.Value != "http" && f.Value != "https" })
	}},
}

// isMalformed reports whether this is the reset of a malformed request.
func (a *http2Answer) isMalformed() bool {
	return a.reset == http2.ErrCodeProtocol.String() || a.reset == faulty
}

// faulty stands for the codes of a client's faults: which one is sent depends on the order of checks.
const faulty = "for a fault"

var faults = []string{
	http2.ErrCodeProtocol.String(), http2.ErrCodeStreamClosed.String(), http2.ErrCodeFrameSize.String(), http2.ErrCodeFlowControl.String(),
}

// normal returns an answer without what makes no difference.
func (a *http2Answer) normal() *http2Answer {
	b := *a
	b.header, b.trailer = slices.Clone(a.header), slices.Clone(a.trailer)
	// RFC 9110, section 10.1.1: a server may leave out 100 if a part of the body has come.
	b.interim = slices.DeleteFunc(slices.Clone(a.interim), func(s string) bool { return strings.HasPrefix(s, "100") })
	// RFC 9113, sections 8.1 and 5.1: what comes of a request after the whole response is not wanted.
	if a.ended {
		b.reset = ""
	} else if slices.Contains(faults, a.reset) {
		b.reset = faulty
	}
	if strings.Contains(strings.Join(a.header, "\n"), "content-type: application/grpc") {
		b.normalizeGRPC()
	}
	return &b
}

// unzipped returns the first message, if it is a compressed one of gRPC, and whether all of it is there.
func (a *http2Answer) unzipped() (message string, whole bool) {
	if len(a.body) < 5 || !a.ended {
		return "", false
	}
	r, err := gzip.NewReader(bytes.NewReader(a.body[5:]))
	if err != nil {
		return err.Error(), true
	}
	b, err := io.ReadAll(r)
	return fmt.Sprint(string(b), err), true
}

func (a *http2Answer) normalizeGRPC() {
	// Trailers-Only of gRPC's specification: a response without messages may be one header.
	if len(a.body) == 0 && a.ended {
		a.header = append(a.header, a.trailer...)
		a.trailer = nil
		slices.Sort(a.header)
	}
	for i, s := range a.header { // connect has them in any order
		if list, ok := strings.CutPrefix(s, "trailer: "); ok {
			names := strings.Split(list, ",")
			slices.Sort(names)
			a.header[i] = "trailer: " + strings.Join(names, ",")
		}
	}
	// A compression that no message uses.
	if len(a.body) == 0 || a.body[0] == 0 {
		a.header = slices.DeleteFunc(a.header, func(s string) bool { return strings.HasPrefix(s, "grpc-encoding: ") })
	}
}

// differ compares what a client has seen of net/http and of internal/http2, until one of them has
// ended the connection.
func differ(theirs, ours *http2View, sent *http2Sent) string {
	switch {
	case ours.broken != "" && sent.tableSizes() < 2: // the client's decoder does not take two new sizes at once
		return "ours is broken: " + ours.broken
	case theirs.broken != "" || ours.broken != "": // not ours to mend
		return ""
	}
	over, explained := len(sent.bursts), false
	alike := theirs.end == ours.end && theirs.burst == ours.burst
	if theirs.end != "" || ours.end != "" {
		var e *http2Ending
		e, over = sent.ending(theirs, ours)
		for i := range http2Endings {
			alike = alike || http2Endings[i].same(e)
		}
	} else if !slices.Equal(theirs.pings, ours.pings) || theirs.acks != ours.acks {
		return fmt.Sprintf("theirs PING %q, %d SETTINGS; ours %q, %d", theirs.pings, theirs.acks, ours.pings, ours.acks)
	}
	ids := maps.Clone(theirs.streams)
	maps.Copy(ids, ours.streams)
	for id := range ids {
		_, e := differAt(sent.requests[id], theirs.streams[id], ours.streams[id], over, false)
		explained = explained || e
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if why, _ := differAt(sent.requests[id], theirs.streams[id], ours.streams[id], over, explained); why != "" {
			return fmt.Sprintf("stream %d: %s", id, why)
		}
	}
	if !alike && !explained { // a request that one of them has refused may also end the connection
		return fmt.Sprintf("theirs ends with %q after burst %d, ours with %q after %d", theirs.end, theirs.burst, ours.end, ours.burst)
	}
	return ""
}

// differAt compares what a client has seen of a stream before the burst that ended the connection. It
// reports whether there is a difference that may be; after one, another share of the connection's window
// is left.
func differAt(r *http2SentRequest, theirs, ours *http2Answer, over int, share bool) (why string, explained bool) {
	none := &http2Answer{}
	if theirs == nil {
		theirs = none
	}
	if ours == nil {
		ours = none
	}
	a, b := theirs.normal(), ours.normal()
	if share && len(a.body) < len(b.body) && !a.ended {
		b = b.until(len(a.body), a)
	} else if share && len(b.body) < len(a.body) && !b.ended {
		a = a.until(len(b.body), b)
	}
	if a.String() == b.String() {
		return "", false
	}
	for _, d := range http2Differences {
		if d.same(r, a, b) {
			return "", true
		}
	}
	if theirs.last >= over || ours.last >= over {
		return "", false
	}
	return fmt.Sprintf("\n theirs %s\n ours   %s", a, b), false
}

// until returns an answer as if the client had seen only a part of its body, as of another answer.
func (a *http2Answer) until(n int, other *http2Answer) *http2Answer {
	cut := *a
	cut.body, cut.ended, cut.trailer, cut.reset = a.body[:n], false, nil, other.reset
	return &cut
}
