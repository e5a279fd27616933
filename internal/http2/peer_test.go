package http2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is the other end of a machine, made of another implementation's framer.
type peer struct {
	t      *testing.T
	m      *Machine
	framer *xhttp2.Framer
	sent   bytes.Buffer
	events []Event
	err    error
	block  bytes.Buffer
	packer *hpack.Encoder
}

// newPeer returns a peer that has sent its preface and settings, to a server with small bounds.
func newPeer(t *testing.T, m *Machine) *peer {
	p := &peer{t: t, m: m}
	p.framer = xhttp2.NewFramer(&p.sent, nil)
	p.framer.AllowIllegalWrites = true
	p.packer = hpack.NewEncoder(&p.block)
	if !m.client {
		p.sent.WriteString(Preface)
	}
	check(t, p.framer.WriteSettings())
	p.give()
	m.Take(m.Output())
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// give hands the machine what was sent.
func (p *peer) give() {
	p.t.Helper()
	n, events, err := p.m.Receive(p.sent.Bytes())
	for _, ev := range events {
		ev.Data = bytes.Clone(ev.Data)
		p.events = append(p.events, ev)
	}
	if p.err = err; err == nil && n != p.sent.Len() {
		p.t.Errorf("%d of %d bytes used", n, p.sent.Len())
	}
	p.sent.Reset()
}

// pack encodes fields, given as name and value in turns.
func (p *peer) pack(fields ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		check(p.t, p.packer.WriteField(Field{Name: fields[i], Value: fields[i+1]}))
	}
	return bytes.Clone(p.block.Bytes())
}

var request = []string{":method", "POST", ":scheme", "http", ":path", "/a/b"}

// header sends the header of a request, with more fields.
func (p *peer) header(id uint32, end bool, more ...string) {
	check(p.t, p.framer.WriteHeaders(xhttp2.HeadersFrameParam{
		StreamID: id, BlockFragment: p.pack(append(append([]string{}, request...), more...)...), EndStream: end, EndHeaders: true,
	}))
}

// answers returns what the machine has sent, as text.
func (p *peer) answers() (list []string) {
	in := xhttp2.NewFramer(io.Discard, bytes.NewReader(p.m.Output()))
	for {
		f, err := in.ReadFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.t.Errorf("what the machine sends can't be read: %v", err)
			}
			p.m.Take(p.m.Output())
			return list
		}
		switch f := f.(type) {
		case *xhttp2.RSTStreamFrame:
			list = append(list, fmt.Sprintf("RST %d %s", f.StreamID, Code(f.ErrCode)))
		case *xhttp2.GoAwayFrame:
			list = append(list, fmt.Sprintf("GOAWAY %d %s", f.LastStreamID, Code(f.ErrCode)))
		case *xhttp2.DataFrame:
			list = append(list, fmt.Sprintf("DATA %d %d %v", f.StreamID, len(f.Data()), f.StreamEnded()))
		case *xhttp2.HeadersFrame:
			list = append(list, fmt.Sprintf("HEADERS %d %v", f.StreamID, f.StreamEnded()))
		case *xhttp2.SettingsFrame:
			list = append(list, fmt.Sprintf("SETTINGS %v", f.IsAck()))
		case *xhttp2.PingFrame:
			list = append(list, fmt.Sprintf("PING %v", f.IsAck()))
		case *xhttp2.WindowUpdateFrame:
			list = append(list, fmt.Sprintf("WINDOW %d %d", f.StreamID, f.Increment))
		default:
			list = append(list, f.Header().Type.String())
		}
	}
}

// raw sends a frame as it is.
func (p *peer) raw(kind, flags byte, id uint32, payload string) {
	p.sent.Write(append(appendHead(nil, len(payload), kind, flags, id), payload...))
}

// What breaks the protocol ends the stream or the connection, with the code that RFC 9113 says.
func TestBrokenProtocol(t *testing.T) {
	for name, row := range map[string]struct {
		send func(p *peer)
		want string // the answer
	}{
		"even stream":             {func(p *peer) { p.header(2, true) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"stream 0":                {func(p *peer) { p.header(0, true) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"smaller stream":          {func(p *peer) { p.header(5, true); p.header(3, true) }, "GOAWAY 5 PROTOCOL_ERROR"},
		"header of an ended one":  {func(p *peer) { p.header(1, true); p.header(1, true) }, "RST 1 STREAM_CLOSED"},
		"data of an ended one":    {func(p *peer) { p.header(1, true); p.raw(frameData, 0, 1, "x") }, "RST 1 STREAM_CLOSED"},
		"data of an idle one":     {func(p *peer) { p.raw(frameData, 0, 1, "x") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"data without a stream":   {func(p *peer) { p.raw(frameData, 0, 0, "x") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"reset of an idle one":    {func(p *peer) { p.raw(frameReset, 0, 1, "\x00\x00\x00\x08") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"reset of three bytes":    {func(p *peer) { p.header(1, false); p.raw(frameReset, 0, 1, "\x00\x00\x08") }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		"window of an idle one":   {func(p *peer) { p.raw(frameWindowUpdate, 0, 1, "\x00\x00\x00\x08") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"window by nothing":       {func(p *peer) { p.raw(frameWindowUpdate, 0, 0, "\x00\x00\x00\x00") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"stream's by nothing":     {func(p *peer) { p.header(1, false); p.raw(frameWindowUpdate, 0, 1, "\x00\x00\x00\x00") }, "RST 1 PROTOCOL_ERROR"},
		"window of five bytes":    {func(p *peer) { p.raw(frameWindowUpdate, 0, 0, "\x00\x00\x00\x00\x01") }, "GOAWAY 0 FRAME_SIZE_ERROR"},
		"window too large":        {func(p *peer) { p.raw(frameWindowUpdate, 0, 0, "\x7f\xff\xff\xff") }, "GOAWAY 0 FLOW_CONTROL_ERROR"},
		"stream's too large":      {func(p *peer) { p.header(1, false); p.raw(frameWindowUpdate, 0, 1, "\x7f\xff\xff\xff") }, "RST 1 FLOW_CONTROL_ERROR"},
		"first window too large":  {func(p *peer) { p.raw(frameSettings, 0, 0, "\x00\x04\x80\x00\x00\x00") }, "GOAWAY 0 FLOW_CONTROL_ERROR"},
		"frame size too small":    {func(p *peer) { p.raw(frameSettings, 0, 0, "\x00\x05\x00\x00\x3f\xff") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"frame size too large":    {func(p *peer) { p.raw(frameSettings, 0, 0, "\x00\x05\x01\x00\x00\x00") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"push neither on nor off": {func(p *peer) { p.raw(frameSettings, 0, 0, "\x00\x02\x00\x00\x00\x02") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"settings of a stream":    {func(p *peer) { p.raw(frameSettings, 0, 1, "") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"settings of five bytes":  {func(p *peer) { p.raw(frameSettings, 0, 0, "\x00\x02\x00\x00\x00") }, "GOAWAY 0 FRAME_SIZE_ERROR"},
		"acknowledged with more":  {func(p *peer) { p.raw(frameSettings, flagAck, 0, "\x00\x02\x00\x00\x00\x00") }, "GOAWAY 0 FRAME_SIZE_ERROR"},
		"ping of a stream":        {func(p *peer) { p.raw(framePing, 0, 1, "12345678") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"ping of seven bytes":     {func(p *peer) { p.raw(framePing, 0, 0, "1234567") }, "GOAWAY 0 FRAME_SIZE_ERROR"},
		"goaway of a stream":      {func(p *peer) { p.raw(frameGoAway, 0, 1, "12345678") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"push":                    {func(p *peer) { p.raw(framePushPromise, flagEndHeaders, 1, "\x00\x00\x00\x02") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"priority of four bytes":  {func(p *peer) { p.header(1, false); p.raw(framePriority, 0, 1, "1234") }, "RST 1 FRAME_SIZE_ERROR"},
		"priority over itself":    {func(p *peer) { p.raw(framePriority, 0, 1, "\x00\x00\x00\x01\x00") }, "RST 1 PROTOCOL_ERROR"},
		"depends on itself": {func(p *peer) {
			p.raw(frameHeaders, flagEndHeaders|flagPriority, 1, "\x00\x00\x00\x01\x00"+string(p.pack(request...)))
		}, "RST 1 PROTOCOL_ERROR"},
		"padding":            {func(p *peer) { p.header(1, false); p.raw(frameData, flagPadded, 1, "\x04abc") }, "GOAWAY 1 PROTOCOL_ERROR"},
		"large frame":        {func(p *peer) { p.header(1, false); p.raw(frameData, 0, 1, strings.Repeat("x", minFrame+1)) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		"continuation alone": {func(p *peer) { p.raw(frameContinuation, flagEndHeaders, 1, "") }, "GOAWAY 0 PROTOCOL_ERROR"},
		"header not continued": {func(p *peer) {
			p.raw(frameHeaders, 0, 1, string(p.pack(request...)))
			p.raw(framePing, 0, 0, "12345678")
		}, "GOAWAY 0 PROTOCOL_ERROR"},
		"other one continued": {func(p *peer) {
			p.raw(frameHeaders, 0, 1, string(p.pack(request...)))
			p.raw(frameContinuation, flagEndHeaders, 3, "")
		}, "GOAWAY 0 PROTOCOL_ERROR"},
		"no header block":         {func(p *peer) { p.raw(frameHeaders, flagEndHeaders, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") }, "GOAWAY 0 COMPRESSION_ERROR"},
		"capitals":                {func(p *peer) { p.header(1, true, "Upper", "x") }, "RST 1 PROTOCOL_ERROR"},
		"a name with a space":     {func(p *peer) { p.header(1, true, "a b", "x") }, "RST 1 PROTOCOL_ERROR"},
		"a value with a line":     {func(p *peer) { p.header(1, true, "a", "x\r\nb: y") }, "RST 1 PROTOCOL_ERROR"},
		"a late pseudo-field":     {func(p *peer) { p.header(1, true, "a", "x", ":authority", "a") }, "RST 1 PROTOCOL_ERROR"},
		"an unknown pseudo-field": {func(p *peer) { p.header(1, true, ":what", "x") }, "RST 1 PROTOCOL_ERROR"},
		"a status":                {func(p *peer) { p.header(1, true, ":status", "200") }, "RST 1 PROTOCOL_ERROR"},
		"a user":                  {func(p *peer) { p.header(1, true, ":authority", "a@b") }, "RST 1 PROTOCOL_ERROR"},
		"two paths":               {func(p *peer) { p.header(1, true, ":path", "/x") }, "RST 1 PROTOCOL_ERROR"},
		"connection":              {func(p *peer) { p.header(1, true, "connection", "close") }, "RST 1 PROTOCOL_ERROR"},
		"te":                      {func(p *peer) { p.header(1, true, "te", "gzip") }, "RST 1 PROTOCOL_ERROR"},
		"no path":                 {func(p *peer) { p.raw(frameHeaders, flagEndHeaders, 1, string(p.pack(request[:4]...))) }, "RST 1 PROTOCOL_ERROR"},
		"an empty path": {func(p *peer) {
			p.raw(frameHeaders, flagEndHeaders, 1, string(p.pack(append(request[:4:4], ":path", "")...)))
		}, "RST 1 PROTOCOL_ERROR"},
		"a trailer with a path": {func(p *peer) { p.header(1, false); p.header(1, true) }, "RST 1 PROTOCOL_ERROR"},
		"two trailers":          {func(p *peer) { p.header(1, false); p.raw(frameHeaders, flagEndHeaders, 1, string(p.pack("a", "b"))) }, "RST 1 PROTOCOL_ERROR"},
		"no body":               {func(p *peer) { p.header(1, true, "content-length", "1") }, "RST 1 PROTOCOL_ERROR"},
		"too short":             {func(p *peer) { p.header(1, false, "content-length", "2"); p.raw(frameData, flagEndStream, 1, "x") }, "RST 1 PROTOCOL_ERROR"},
		"too long":              {func(p *peer) { p.header(1, false, "content-length", "2"); p.raw(frameData, 0, 1, "xyz") }, "RST 1 PROTOCOL_ERROR"},
		"too short, trailer": {func(p *peer) {
			p.header(1, false, "content-length", "2")
			p.raw(frameHeaders, flagEndHeaders|flagEndStream, 1, string(p.pack("a", "b")))
		}, "RST 1 PROTOCOL_ERROR"},
		"two lengths": {func(p *peer) { p.header(1, false, "content-length", "2", "content-length", "3") }, "RST 1 PROTOCOL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, NewServer(small))
			row.send(p)
			p.give()
			answers := p.answers()
			if got := answers[len(answers)-1]; got != row.want {
				t.Errorf("answered %q, want %s; error %v", answers, row.want, p.err)
			}
			if gone := strings.HasPrefix(row.want, "GOAWAY"); gone != (p.err != nil) {
				t.Errorf("error %v", p.err)
			}
			if p.err != nil {
				return
			}
			p.header(99, true) // the connection goes on
			if p.give(); p.err != nil || p.events[len(p.events)-1].Stream.ID != 99 {
				t.Errorf("then: %v, %v", p.events, p.err)
			}
		})
	}
}

// A header that is larger than allowed comes with what fits, and does not end the connection; one
// that is much larger does.
func TestLargeHeaders(t *testing.T) {
	p := newPeer(t, NewServer(small))
	p.header(1, true, "a", strings.Repeat("x", int(small.MaxHeader)))
	p.header(3, true, "a", "b")
	p.give()
	if len(p.events) != 2 || !p.events[0].Block.TooLarge || p.events[1].Block.TooLarge || p.err != nil {
		t.Fatal(p.events, p.err)
	}
	p.raw(frameHeaders, 0, 5, string(p.pack(request...)))
	for range 1000 {
		p.raw(frameContinuation, 0, 5, strings.Repeat("\x00\x01a\x01b", 100))
	}
	p.sent.Truncate(p.sent.Len())
	if _, _, err := p.m.Receive(p.sent.Bytes()); !strings.Contains(fmt.Sprint(err), "ENHANCE_YOUR_CALM") {
		t.Error(err)
	}
}

// Frames that further no message end the connection when there are too many of them.
func TestFloods(t *testing.T) {
	for name, frame := range map[string]func(p *peer, i int){
		"PING":           func(p *peer, _ int) { p.raw(framePing, 0, 0, "12345678") },
		"PING's answers": func(p *peer, _ int) { p.raw(framePing, flagAck, 0, "12345678") },
		"SETTINGS":       func(p *peer, _ int) { p.raw(frameSettings, 0, 0, "") },
		"large SETTINGS": func(p *peer, _ int) { p.raw(frameSettings, 0, 0, strings.Repeat("\x00\x04\x00\x00\xff\xff", 100)) },
		"PRIORITY":       func(p *peer, _ int) { p.raw(framePriority, 0, 1, "\x00\x00\x00\x03\x00") },
		"empty DATA": func(p *peer, i int) {
			if i == 0 {
				p.header(1, false)
			}
			p.raw(frameData, 0, 1, "")
		},
		"padding": func(p *peer, i int) {
			if i == 0 {
				p.header(1, false)
			}
			p.raw(frameData, flagPadded, 1, "\x00")
		},
		"windows":        func(p *peer, _ int) { p.raw(frameWindowUpdate, 0, 0, "\x00\x00\x00\x01") },
		"unknown frames": func(p *peer, _ int) { p.raw(0x77, 0, 0, "") },
		"GOAWAY":         func(p *peer, _ int) { p.raw(frameGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00") },
		"requests and resets": func(p *peer, i int) {
			p.header(uint32(2*i+1), true)
			p.raw(frameReset, 0, uint32(2*i+1), "\x00\x00\x00\x08")
		},
		"quick requests and resets": func(p *peer, i int) {
			p.header(uint32(2*i+1), false)
			p.raw(frameReset, 0, uint32(2*i+1), "\x00\x00\x00\x08")
		},
		"quick requests, and windows by nothing": func(p *peer, i int) {
			p.header(uint32(2*i+1), false)
			p.raw(frameWindowUpdate, 0, uint32(2*i+1), "\x00\x00\x00\x00")
		},
		"quick requests that are too long": func(p *peer, i int) {
			p.header(uint32(2*i+1), false, "content-length", "1")
			p.raw(frameData, 0, uint32(2*i+1), "12")
		},
		"quick requests with large headers": func(p *peer, i int) {
			p.header(uint32(2*i+1), true, "a", strings.Repeat("x", int(small.MaxHeader)))
		},
		"large unknown frames": func(p *peer, _ int) { p.raw(0x77, 0, 0, strings.Repeat("x", minFrame)) },
		"malformed requests":   func(p *peer, i int) { p.header(uint32(2*i+1), true, "A", "b") },
		"requests too many":    func(p *peer, i int) { p.header(uint32(2*i+1), true) },
		"data of an ended one": func(p *peer, i int) {
			if i == 0 {
				p.header(1, false)
				p.raw(frameReset, 0, 1, "\x00\x00\x00\x08")
			}
			p.raw(frameData, 0, 1, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, NewServer(small))
			running, most := 0, 0
			for i := 0; p.err == nil; i++ {
				if i > 2*calm {
					t.Fatal("it goes on")
				}
				frame(p, i)
				p.events = p.events[:0]
				p.give()
				for _, ev := range p.events {
					switch {
					case ev.Kind == Headed && strings.HasPrefix(name, "quick"):
						p.m.Header(ev.Stream, []Field{{Name: ":status", Value: "200"}}, true)
						p.m.Done(ev.Stream)
					case ev.Kind == Headed:
						running++
					}
				}
				most = max(most, len(p.m.Output()))
				p.m.Take(p.m.Output())
			}
			if !strings.Contains(p.err.Error(), "ENHANCE_YOUR_CALM") || running > int(small.MaxStreams) || most > 2*hard {
				t.Errorf("%v; %d requests are worked on, %d bytes are to be written", p.err, running, most)
			}
		})
	}
}

// Frames in moderation are no flood: those that messages or time allow.
func TestNoFlood(t *testing.T) {
	p := newPeer(t, NewServer(small))
	for i := range uint32(3 * calm) {
		p.header(2*i+1, true)
		p.raw(framePing, 0, 0, "12345678")
		p.events = p.events[:0]
		if p.give(); p.err != nil {
			t.Fatal(i, p.err)
		}
		st := p.events[0].Stream
		p.m.Header(st, []Field{{Name: ":status", Value: "200"}}, true)
		p.m.Done(st)
		p.m.Take(p.m.Output())
	}
	for range 3 * calm {
		p.raw(framePing, 0, 0, "12345678")
		p.m.Calm(1)
		if p.give(); p.err != nil {
			t.Fatal(p.err)
		}
		p.m.Take(p.m.Output())
	}
}

// Calls that are cancelled when they have lasted for a while are no flood.
func TestLateResets(t *testing.T) {
	p := newPeer(t, NewServer(small))
	for id := uint32(1); id < 3*calm; {
		first := id
		for ; id < first+2*small.MaxStreams; id += 2 {
			p.header(id, true)
		}
		p.events = p.events[:0]
		p.give()
		p.m.Calm(hasty)
		for id := first; id < first+2*small.MaxStreams; id += 2 {
			p.raw(frameReset, 0, id, "\x00\x00\x00\x08")
		}
		p.give()
		for _, ev := range p.events {
			p.m.Done(ev.Stream)
		}
		if p.m.Take(p.m.Output()); p.err != nil {
			t.Fatal(id, p.err)
		}
	}
}

// A peer that does not read what its frames make the machine send is cut off.
func TestPeerThatDoesNotRead(t *testing.T) {
	p := newPeer(t, NewServer(small))
	for p.err == nil {
		p.raw(framePing, 0, 0, "12345678")
		p.m.Calm(1)
		if p.give(); len(p.m.Output()) > 2*hard {
			t.Fatal("it goes on")
		}
	}
}

// After Leave a client's requests are still taken, after Refuse they are not, and those that were
// are answered.
func TestLeave(t *testing.T) {
	p := newPeer(t, NewServer(small))
	p.header(1, true)
	p.give()
	p.m.Leave()
	p.header(3, true)
	p.give()
	p.m.Refuse(NoError, "")
	p.header(5, false)
	p.raw(frameData, flagEndStream, 5, "x")
	p.give()
	for _, ev := range p.events {
		p.m.Header(ev.Stream, []Field{{Name: ":status", Value: "200"}}, true)
	}
	want := "[GOAWAY 2147483647 NO_ERROR GOAWAY 3 NO_ERROR HEADERS 1 true HEADERS 3 true]"
	if got := fmt.Sprint(p.answers()); got != want || p.err != nil || p.m.Streams() != 0 {
		t.Errorf("%s, want %s; %v", got, want, p.err)
	}
}

// Bytes of any kind end the connection at most: nothing panics, and what is to be written and what
// is kept are bounded.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(Preface), false)
	var b bytes.Buffer
	fr := xhttp2.NewFramer(&b, nil)
	_ = fr.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 10})
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(request); i += 2 {
		_ = e.WriteField(Field{Name: request[i], Value: request[i+1]})
	}
	_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	_ = fr.WriteData(1, true, []byte("data"))
	f.Add(b.Bytes(), true)
	f.Fuzz(func(t *testing.T, data []byte, server bool) {
		m := NewClient(small)
		if server {
			m = NewServer(small)
			m.greeted = true
		} else {
			m.Open([]Field{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/a"}}, false)
		}
		for len(data) > 0 {
			n, events, err := m.Receive(data)
			if err != nil || n == 0 {
				break
			}
			data = data[n:]
			for _, ev := range events {
				if ev.Kind == Headed && server && !ev.End {
					m.Header(ev.Stream, []Field{{Name: ":status", Value: "200"}}, false)
					m.Finish(ev.Stream, make([]byte, 100), []Field{{Name: "a", Value: "b"}})
				}
			}
		}
		if len(m.Output()) > hard+largestAnswer || len(m.streams) > int(small.MaxStreams)+1 || m.recv < 0 {
			t.Errorf("%d bytes to write, %d streams, a window of %d", len(m.Output()), len(m.streams), m.recv)
		}
	})
}

// largestAnswer is more than one frame makes a machine send.
const largestAnswer = Soft + minFrame + 1<<10
