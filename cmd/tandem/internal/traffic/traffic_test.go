package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// said is what a side sends.
type said struct {
	from Side
	p    []byte
}

// decoded returns the events of a conversation, a line each without times. What is said is fed in
// pieces of a size; 0 is all at once.
func decoded(o Options, talk []said, piece int) string {
	var out strings.Builder
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	c := New(1, o, func(e Event) {
		e.Took = 0
		out.WriteString(strings.TrimPrefix(e.Line(), "08:00:00.000 1 ") + "\n")
	}, now)
	for _, s := range talk {
		for p := s.p; len(p) > 0; {
			n := len(p)
			if piece > 0 {
				n = min(n, piece)
			}
			c.Feed(s.from, p[:n], now)
			p = p[n:]
		}
	}
	c.Closed(nil, now)
	return out.String()
}

func frame(t wire.Type, f wire.Flags, s wire.Stream, body []byte) []byte {
	return append(wire.AppendHeader(nil, wire.Header{Length: len(body), Type: t, Flags: f, Stream: s}), body...)
}

// tandemTalk is a call that is answered, one that fails, a stream, a large message, and the end.
func tandemTalk(t *testing.T) []said {
	t.Helper()
	md, err := wire.AppendMetadata(nil, tandem.Metadata{"token": {"secret"}, "lane": {"blue"}})
	if err != nil {
		t.Fatal(err)
	}
	settings := wire.DefaultSettings()
	settings.Codecs = []string{"gob", "json"}
	one, two := wire.MakeStream(0, 1), wire.MakeStream(1, 2)
	mul := wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte("Arith.Mul"), Define: true}, Codec: 1, Timeout: time.Second, Metadata: md})
	again := wire.AppendRequest(nil, &wire.Request{Codec: 1, Attempt: 1, Size: 9})
	chat := wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte("Chat.Talk")}, Codec: 7})
	failed := wire.AppendStatus(nil, &wire.Status{Code: tandem.NotFound, Message: "none", NotExecuted: true})
	const answer = wire.FlagAnswer | wire.FlagEnd | wire.FlagLast
	ok := wire.AppendResponse(nil, &wire.Response{HasLoad: true, Load: wire.Load{InFlight: 3, Utilization: 12}})
	return []said{
		{Client, wire.AppendPreface(nil, settings)}, {Server, wire.AppendPreface(nil, settings)},
		{Client, frame(wire.TypeRequest, wire.FlagEnd, one, append(mul, `{"A":7}`...))},
		{Server, frame(wire.TypeResponse, answer, one, append(ok, `{"C":5}`...))},
		{Client, frame(wire.TypeRequest, 0, one, append(again, `"123`...))},
		{Client, frame(wire.TypeData, wire.FlagEnd, one, []byte(`4567"`))},
		{Server, frame(wire.TypeResponse, answer, one, wire.AppendResponse(nil, &wire.Response{Status: failed}))},
		{Client, frame(wire.TypeRequest, wire.FlagStream|wire.FlagEnd, two, chat)},
		{Server, frame(wire.TypeResponse, wire.FlagAnswer|wire.FlagStream, two, wire.AppendResponse(nil, new(wire.Response)))},
		{Client, frame(wire.TypeData, wire.FlagStream|wire.FlagEnd, two, []byte("\"ä\x00\xff\""))},
		{Client, frame(wire.TypeCancel, 0, two, nil)},
		{Server, frame(wire.TypeReset, wire.FlagAnswer, two, failed)},
		{Server, frame(wire.TypeReset, wire.FlagAnswer, two, failed)}, // it is over
		{Client, wire.AppendPing(nil, wire.TypePing, [8]byte{})},
		{Server, wire.AppendGoAway(nil, wire.GoAway{Accepted: 3, Message: "bye"})},
		{Client, frame(wire.TypeRequest, wire.FlagEnd, one, wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Number: 9}}))},
		{Client, []byte("more")},
	}
}

const tandemSaid = `> preface tandem (version 1, codecs gob json)
< preface tandem (version 1, codecs gob json)
> request tandem #0.1 Arith.Mul 7 bytes (json, timeout 1s, metadata lane token) {"A":7}
< response tandem #0.1 Arith.Mul ok 7 bytes (load 3 running, 0 waiting, 12 %) {"C":5}
> request tandem #0.1 Arith.Mul 9 bytes (json, attempt 1) "123
> data tandem #0.1 Arith.Mul 9 bytes
< response tandem #0.1 Arith.Mul not found: none (not executed)
> request tandem #1.2 Chat.Talk (codec 7, stream)
< accept tandem #1.2 Chat.Talk ok
> data tandem #1.2 Chat.Talk 6 bytes "ä\x00\xff"
> cancel tandem #1.2 Chat.Talk
< reset tandem #1.2 Chat.Talk not found: none (not executed)
< goaway tandem (reason 0, 3 requests were accepted: bye)
> undecoded tandem (what follows is passed on as it is: name number 9, which was not given)
`

var errTooMuch = errors.New("it holds too much")

// held returns an error if a conversation keeps more than it may.
func (c *Conversation) held() error {
	for side := range 2 {
		n := len(c.first)
		switch d := c.decoder.(type) {
		case *tandemDecoder:
			n += len(d.sides[side].in.held)
		case *http1:
			n += len(d.sides[side].in.held) + len(d.sides[side].start)
		case *http2:
			n += len(d.sides[side].in.held) + len(d.sides[side].block)
		}
		if n > 3*maxHead {
			return fmt.Errorf("%w: %d bytes", errTooMuch, n)
		}
	}
	return nil
}

func http1Talk() []said {
	return []said{
		{Client, []byte("POST /Arith/Mul?token=secret HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"A\":7}")},
		{Server, []byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n{\"C\r\n4\r\n\":5}\r\n0\r\nTrailer: x\r\n\r\n")},
		{Client, []byte("HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET /old HTTP/1.1\r\nHost: h\r\n\r\n")},
		{Server, []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end")},
	}
}

const http1Said = `> request http/1 POST /Arith/Mul?… 7 bytes (HTTP/1.1 h application/json)
> data http/1 POST /Arith/Mul?… 7 bytes {"A":7}
< response http/1 POST /Arith/Mul?… 100 Continue (HTTP/1.1)
< response http/1 POST /Arith/Mul?… 200 OK (HTTP/1.1)
< data http/1 POST /Arith/Mul?… 7 bytes {"C":5}
> request http/1 HEAD / (HTTP/1.1 h)
> request http/1 GET /old (HTTP/1.1 h)
< response http/1 HEAD / 200 OK 5 bytes (HTTP/1.1)
< response http/1 GET /old 200 OK (HTTP/1.1)
< data http/1 GET /old 10 bytes to the end
`

// headers encodes headers, and frame2 a frame of HTTP/2.
type headers struct {
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func newHeaders() *headers {
	h := new(headers)
	h.encoder = hpack.NewEncoder(&h.block)
	return h
}

func (h *headers) encode(pairs ...string) []byte {
	h.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = h.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return bytes.Clone(h.block.Bytes())
}

func frame2(kind, flags byte, stream byte, body []byte) []byte {
	return append([]byte{byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body)), kind, flags, 0, 0, 0, stream}, body...)
}

func http2Talk() []said {
	up, down := newHeaders(), newHeaders()
	request := []string{":method", "POST", ":path", "/shop.Cart/Add?x=y", ":authority", "h", "content-type", "application/grpc"}
	first, second := up.encode(request...), up.encode(request...)
	padded := append([]byte{2, 0, 0, 0, 0, 7}, append(second, 0, 0)...) // padding and priority
	return []said{
		{Client, []byte(http2Preface)},
		{Client, frame2(4, 0, 0, nil)},
		{Client, frame2(frameHeaders, 0, 1, first[:4])}, {Client, frame2(frameContinuation, flagEndHeaders, 1, first[4:])},
		{Client, frame2(frameData, flagEndStream, 1, []byte("hello"))},
		{Server, frame2(frameHeaders, flagEndHeaders, 1, down.encode(":status", "200", "content-type", "application/grpc"))},
		{Server, frame2(frameData, 0, 1, []byte("wor"))}, {Server, frame2(frameData, 0, 1, []byte("ld"))},
		{Server, frame2(frameHeaders, flagEndHeaders|flagEndStream, 1, down.encode("grpc-status", "5", "grpc-message", "none"))},
		{Client, frame2(frameHeaders, flagEndHeaders|flagEndStream|flagPadded|flagPriority, 3, padded)},
		{Client, frame2(frameReset, 0, 3, []byte{0, 0, 0, 8})},
		{Server, frame2(frameGoAway, 0, 0, []byte("\x00\x00\x00\x03\x00\x00\x00\x01bye"))},
		{Client, frame2(frameContinuation, 0, 3, nil)},
	}
}

const http2Said = `> request http/2 #1 POST /shop.Cart/Add?… (h application/grpc)
> end http/2 #1 POST /shop.Cart/Add?… 5 bytes hello
< response http/2 #1 POST /shop.Cart/Add?… 200 (application/grpc)
< end http/2 #1 POST /shop.Cart/Add?… grpc-status 5 none 5 bytes world
> request http/2 #3 POST /shop.Cart/Add?… (h application/grpc)
> reset http/2 #3 POST /shop.Cart/Add?… error 8
< goaway http/2 (error 1: bye)
> undecoded http/2 (what follows is passed on as it is: headers that go on without a beginning)
`

// TestDecode: the same events come, however the bytes are cut into pieces.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name string
		talk []said
		want string
	}{
		{"tandem", tandemTalk(t), tandemSaid}, {"HTTP/1", http1Talk(), http1Said}, {"HTTP/2", http2Talk(), http2Said},
	} {
		for _, piece := range []int{0, 1, 2, 3, 7, 100} {
			got := decoded(Options{Payload: 100}, c.talk, piece)
			got, _, _ = strings.Cut(got, "- close")
			if strings.HasPrefix(c.name, "tandem") { // what comes after is shown as bytes
				got, _, _ = strings.Cut(got, "> bytes")
			}
			if got != c.want {
				t.Errorf("%s in pieces of %d: got\n%s\nwant\n%s", c.name, piece, got, c.want)
			}
		}
	}
}

// TestOthers: what is not known is counted, and payloads are shown only if they are wanted.
func TestOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		talk []said
		want string
	}{
		{"TLS", Options{}, []said{{Client, []byte("\x16\x03\x01\x00")}}, "> undecoded tls (TLS: what it protects is passed on as it is)\n- close (the client sent 4 bytes, the server 0)\n"},
		{"a server that speaks first", Options{Payload: 3}, []said{{Client, []byte("GE")}, {Server, []byte("220 hi")}},
			"< undecoded unknown (the protocol is not known: its bytes are passed on as they are)\n> bytes unknown 2 bytes GE\n< bytes unknown 6 bytes 220…\n- close (the client sent 2 bytes, the server 6)\n"},
		{"lower case", Options{}, []said{{Client, []byte("hello there")}}, "> undecoded unknown (the protocol is not known: its bytes are passed on as they are)\n- close (the client sent 11 bytes, the server 0)\n"},
		{"a head that never ends", Options{}, []said{{Client, []byte("GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHead))}}, "the head is too long"},
		{"WebSockets", Options{}, []said{{Client, []byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")}, {Server, []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x01")}}, "another protocol: websocket"},
		{"a chunk of no size", Options{}, []said{{Client, []byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n")}}, `the size of a chunk is "z"`},
		{"quiet frames", Options{All: true}, []said{{Client, []byte(http2Preface)}, {Client, frame2(4, 0, 0, make([]byte, 6))}, {Server, frame2(99, 0, 0, nil)}}, "> settings http/2 6 bytes\n< frame 99 http/2\n"},
		{"no payload", Options{}, http1Talk()[:1], "> request http/1 POST /Arith/Mul?… 7 bytes (HTTP/1.1 h application/json)\n- close"},
	} {
		if got := decoded(c.o, c.talk, 0); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// FuzzFeed: no bytes make it fail or keep too much.
func FuzzFeed(f *testing.F) {
	for _, talk := range [][]said{http1Talk(), http2Talk()} {
		var up, down []byte
		for _, s := range talk {
			if s.from == Client {
				up = append(up, s.p...)
			} else {
				down = append(down, s.p...)
			}
		}
		f.Add(up, down, 3)
	}
	preface := wire.AppendPreface(nil, wire.DefaultSettings())
	f.Add(append(bytes.Clone(preface), frame(wire.TypeRequest, 0, 1, []byte("\x00\x01A\x00\x00x"))...), preface, 5)
	f.Fuzz(func(t *testing.T, up, down []byte, piece int) {
		c := New(1, Options{Payload: 9, All: true}, func(Event) {}, time.Time{})
		for len(up)+len(down) > 0 {
			for side, p := range []*[]byte{&up, &down} {
				n := min(len(*p), max(piece, 1))
				if n > 0 {
					c.Feed(Side(side), (*p)[:n], time.Time{})
				}
				*p = (*p)[n:]
			}
			if err := c.held(); err != nil {
				t.Fatal(err)
			}
		}
		c.Closed(nil, time.Time{})
	})
}
