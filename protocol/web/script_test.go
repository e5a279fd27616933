package web_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Script makes frames of a client, good and bad, from the bytes of a fuzzer's input.
type http2Script struct {
	in      []byte
	block   bytes.Buffer
	packer  *hpack.Encoder
	begun   []uint32 // the streams that have begun
	bursts  []http2Burst
	joined  bool            // the next frame belongs to the last burst
	orderly bool            // see orderly, of the last frame
	ended   map[uint32]bool // streams that the client has ended
}

// http2Burst is what a client sends at once. Then it waits for what the server answers.
type http2Burst struct {
	bytes   []byte
	streams []uint32 // that frames are for
}

// mostBursts is how many bursts a script makes at most.
const mostBursts = 24

func newHTTP2Script(in []byte) *http2Script {
	s := &http2Script{in: in, ended: map[uint32]bool{}}
	s.packer = hpack.NewEncoder(&s.block)
	return s
}

// take returns the next byte of the input; 0 at its end.
func (s *http2Script) take() (b byte) {
	if len(s.in) > 0 {
		b, s.in = s.in[0], s.in[1:]
	}
	return b
}

func (s *http2Script) text() []byte {
	n := min(int(s.take())%64, len(s.in))
	b := s.in[:n]
	s.in = s.in[n:]
	return b
}

// frame adds a frame, to the last burst if it is joined.
func (s *http2Script) frame(kind http2.FrameType, flags byte, stream uint32, payload []byte) {
	if !s.joined || len(s.bursts) == 0 || !s.orderly || !orderly(kind) || s.ended[stream] {
		s.bursts = append(s.bursts, http2Burst{})
	}
	b := &s.bursts[len(s.bursts)-1]
	b.bytes = append(b.bytes, frame(byte(kind), flags, stream, payload)...)
	b.streams = append(b.streams, stream)
	s.joined, s.orderly = false, orderly(kind)
	if (kind == http2.FrameData || kind == http2.FrameHeaders) && flags&1 != 0 {
		s.ended[stream] = true
	}
}

// orderly reports whether the answers to such a frame and to those before it are the same however they
// come to run: windows and resets are not.
func orderly(kind http2.FrameType) bool {
	return kind != http2.FrameWindowUpdate && kind != http2.FrameSettings && kind != http2.FrameRSTStream
}

// make returns the bursts. The first is the preface and the first settings.
func (s *http2Script) make() []http2Burst {
	s.frame(http2.FrameSettings, 0, 0, s.firstSettings())
	s.bursts[0].bytes = append([]byte(http2.ClientPreface), s.bursts[0].bytes...)
	for len(s.in) > 0 && len(s.bursts) < mostBursts {
		s.step()
	}
	return s.bursts
}

func (s *http2Script) firstSettings() []byte {
	switch n := s.take(); n % 4 {
	case 1:
		return setting(http2.SettingInitialWindowSize, uint32(n))
	case 2:
		return append(setting(http2.SettingHeaderTableSize, uint32(n)), setting(http2.SettingEnablePush, 0)...)
	}
	return nil
}

func setting(id http2.SettingID, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, uint16(id)), value)
}

// step adds the frames of an operation.
func (s *http2Script) step() {
	switch op := s.take(); op % 16 {
	case 0, 1, 2, 3, 4:
		s.request()
	case 5, 6, 7:
		s.data()
	case 8:
		s.frame(http2.FrameRSTStream, 0, s.stream(), s.word(uint32(s.take())%16))
	case 9, 10:
		s.frame(http2.FrameWindowUpdate, 0, s.stream(), s.word(increments[int(s.take())%len(increments)]))
	case 11:
		s.settings()
	case 12:
		s.frame(http2.FramePing, s.take()&1, 0, []byte("pingpong")[:pick(s, 8, 8, 8, 7)])
	case 13:
		s.trailer()
	case 14:
		s.rare()
	case 15: // any frame
		kind, flags, stream := http2.FrameType(s.take()%12), s.take(), s.stream()
		s.frame(kind, flags, stream, s.text())
	}
}

// pick returns one of a list, as the input says.
func pick[T any](s *http2Script, list ...T) T { return list[int(s.take())%len(list)] }

var increments = []uint32{1, 10, 1000, 65535, 1 << 20, 0, 1<<31 - 1, 1 << 31, 1<<31 - 1<<16}

// word is the payload of RST_STREAM and WINDOW_UPDATE, seldom of a wrong length.
func (s *http2Script) word(n uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, n)
	switch s.take() {
	case 250:
		return b[:3]
	case 251:
		return append(b, 0)
	}
	return b
}

// stream returns a stream that has begun, mostly the last, or another.
func (s *http2Script) stream() uint32 {
	n := int(s.take())
	switch {
	case n > 240:
		return uint32(n - 241)
	case n > 220 || len(s.begun) == 0:
		return 0
	}
	return s.begun[len(s.begun)-1-n%len(s.begun)]
}

// next returns the number of a new stream.
func (s *http2Script) next() uint32 {
	n := uint32(1)
	if len(s.begun) > 0 {
		n = s.begun[len(s.begun)-1] + 2
	}
	switch s.take() {
	case 250:
		n++ // a server's
	case 251:
		n += 10
	case 252:
		n = max(n, 5) - 4
	}
	s.begun = append(s.begun, n)
	return n
}

// request adds a request, often with its body.
func (s *http2Script) request() {
	r := pick(s, http2Requests...)
	fields, flags, stream := s.fields(&r), s.take(), s.next()
	s.headers(stream, fields, r.body == "" || flags&8 != 0, flags)
	if r.body == "" || flags&8 != 0 {
		return
	}
	s.joined = flags&16 != 0
	if body := r.body; flags&32 != 0 && len(body) > 1 {
		half := len(body) / 2
		s.frame(http2.FrameData, 0, stream, []byte(body[:half]))
		s.joined = flags&64 != 0
		s.frame(http2.FrameData, 1, stream, []byte(body[half:]))
	} else {
		s.frame(http2.FrameData, flags>>7, stream, []byte(body))
	}
	s.joined = flags&1 != 0 && flags&2 != 0
}

// fields encodes the header of a request, and some more fields.
func (s *http2Script) fields(r *http2Request) []byte {
	list := []string{":method", r.method, ":scheme", "http", ":authority", "localhost", ":path", r.path}
	if r.pseudo != nil {
		list = r.pseudo
	}
	list = append(slices.Clip(list), r.fields...)
	for range s.take() % 4 {
		list = append(list, pick(s, http2Fields...)...)
	}
	return s.pack(list)
}

func (s *http2Script) pack(list []string) []byte {
	s.block.Reset()
	for i := 0; i+1 < len(list); i += 2 {
		_ = s.packer.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1], Sensitive: len(list[i+1]) > 100}) // a buffer does not fail
	}
	return bytes.Clone(s.block.Bytes())
}

// headers adds HEADERS and, if it is large or flags say so, CONTINUATION.
func (s *http2Script) headers(stream uint32, block []byte, end bool, flags byte) {
	var flag http2.Flags
	if end {
		flag |= http2.FlagHeadersEndStream
	}
	if flags&7 == 7 { // padded, with a priority
		flag |= http2.FlagHeadersPadded | http2.FlagHeadersPriority
		block = append(append([]byte{2, 0, 0, 0, flags >> 4, 1}, block...), 0, 0)
	}
	const largest = 16384
	most := largest
	if flags&7 == 6 {
		most = max(1, len(block)/2)
	}
	kind := http2.FrameHeaders
	for len(block) > most {
		s.frame(kind, byte(flag), stream, block[:most])
		block, kind, flag, s.joined = block[most:], http2.FrameContinuation, 0, flags&8 == 0
		most = largest
	}
	s.frame(kind, byte(flag|http2.FlagHeadersEndHeaders), stream, block)
}

// data adds DATA of a stream.
func (s *http2Script) data() {
	flags, stream := s.take(), s.stream()
	var payload []byte
	switch flags >> 5 {
	case 0:
	case 1:
		payload = bytes.Repeat([]byte("d"), 200*int(s.take()%82))
	case 2:
		payload = envelope([]byte(`"` + strings.Repeat("e", int(s.take())) + `"`))
	case 3:
		payload = []byte{0, 0, 0, 0}
	default:
		payload = s.text()
	}
	flag := http2.Flags(flags & 1)
	if flags&2 != 0 {
		flag |= http2.FlagDataPadded
		n := s.take()
		payload = append(append([]byte{n}, payload...), make([]byte, n%64)...)
	}
	s.joined = flags&4 != 0
	s.frame(http2.FrameData, byte(flag), stream, payload)
}

func (s *http2Script) trailer() {
	flags := s.take()
	block := s.pack(pick(s, []string{"later", "x"}, []string{"checksum", "1", "later", "y"}, []string{"grpc-status", "0"},
		[]string{":path", "/"}, []string{"Later", "x"}, []string{"content-length", "9"}, nil))
	s.headers(s.stream(), block, flags&8 == 0, flags)
}

func (s *http2Script) settings() {
	var payload []byte
	for range 1 + s.take()%2 {
		payload = append(payload, pick(s,
			setting(http2.SettingInitialWindowSize, increments[int(s.take())%len(increments)]),
			setting(http2.SettingInitialWindowSize, uint32(s.take())),
			setting(http2.SettingMaxFrameSize, pick(s, uint32(16384), 20000, 1<<24-1, 16383, 1<<24)),
			setting(http2.SettingEnablePush, uint32(s.take()%3)),
			setting(http2.SettingHeaderTableSize, uint32(s.take())<<(s.take()%8)),
			setting(http2.SettingMaxConcurrentStreams, uint32(s.take()%3)),
			setting(http2.SettingMaxHeaderListSize, uint32(s.take())),
			setting(http2.SettingID(s.take()), 7))...)
	}
	flags := pick(s, byte(0), 0, 0, 0, 0, 1)
	if flags == 1 && s.take()%8 != 0 {
		payload = nil
	}
	s.frame(http2.FrameSettings, flags, 0, payload)
}

// rare adds frames that clients send seldom.
func (s *http2Script) rare() {
	switch s.take() % 8 {
	case 0:
		s.frame(http2.FrameGoAway, 0, 0, append(binary.BigEndian.AppendUint32(nil, uint32(s.take())), 0, 0, 0, s.take()))
	case 1:
		s.frame(http2.FramePriority, 0, s.stream(), []byte{0, 0, 0, s.take(), 1})
	case 2:
		s.frame(http2.FramePriority, 0, s.stream(), s.text())
	case 3: // HEADERS with any block
		s.headers(s.next(), s.text(), true, s.take())
	case 4:
		s.frame(http2.FrameContinuation, s.take(), s.stream(), s.text())
	case 5:
		s.frame(http2.FrameData, 0, s.stream(), make([]byte, 16385))
	case 6:
		s.frame(http2.FrameType(10+s.take()), s.take(), s.stream(), s.text())
	case 7: // the rest as it is
		b := frame(0, 0, 0, s.in)[9:]
		s.in = nil
		s.bursts = append(s.bursts, http2Burst{bytes: b})
	}
}

// http2Request is a request of a script; pseudo replaces the fields that it would have.
type http2Request struct {
	method, path string
	pseudo       []string
	fields       []string
	body         string
}

// enveloped is a message of gRPC or Connect.
func enveloped(message string) string { return string(envelope([]byte(message))) }

var grpcFields = []string{"content-type", "application/grpc+json", "te", "trailers"}

func grpcRequest(path, message string, fields ...string) http2Request {
	return http2Request{method: "POST", path: path, fields: append(grpcFields[:4:4], fields...), body: enveloped(message)}
}

// http2Requests are the requests of scripts, good ones first.
var http2Requests = []http2Request{
	grpcRequest("/Text/Echo", `"hello"`),
	grpcRequest("/Text/Echo", `"hello"`, "grpc-timeout", "1S", "x-user", "u", "x-user", "v", "x-bin", "AAE"),
	grpcRequest("/Text/Long", `70000`),
	grpcRequest("/Text/Fail", `"not so"`),
	grpcRequest("/Text/None", `"hello"`),
	grpcRequest("/Text/Echo", `{`),
	grpcRequest("/Text/Each", `"one"`),
	{method: "POST", path: "/Text/Each", fields: grpcFields, body: enveloped(`"one"`) + enveloped(`"two"`)},
	{method: "POST", path: "/Text/Echo", fields: grpcFields},
	{method: "POST", path: "/Text/Echo", fields: grpcFields, body: "\x00\x00\x00\x00\x09short"},
	{method: "POST", path: "/Text/Echo", fields: []string{"content-type", asJSON}, body: `"hello"`},
	{method: "POST", path: "/Text/Echo", fields: []string{"content-type", asJSON, "content-length", "7"}, body: `"hello"`},
	{method: "POST", path: "/Text/Echo", fields: []string{"content-type", "application/grpc-web+json"}, body: enveloped(`"hello"`)},
	{method: "POST", path: "/Text/Each", fields: []string{"content-type", "application/connect+json"}, body: enveloped(`"one"`)},
	{method: "GET", path: "/Text/Echo?message=%22a%22"},
	{method: "GET", path: "/Text/None"},
	{method: "PUT", path: "/Text/Echo", body: `"hello"`},
	{method: "POST", path: "/plain/echo", body: "some text"},
	{method: "POST", path: "/plain/echo", fields: []string{"expect", "100-continue"}, body: "some text"},
	{method: "POST", path: "/plain/echo", fields: []string{"content-length", "8"}, body: "some text"},
	{method: "POST", path: "/plain/echo", fields: []string{"content-length", "10"}, body: "some text"},
	{method: "POST", path: "/plain/echo", fields: []string{"trailer", "Checksum, Later"}, body: "some text"},
	{method: "POST", path: "/plain/early", body: "some text"},
	{method: "GET", path: "/plain/request?a=b#c"},
	{method: "GET", path: "/plain/long"},
	{method: "HEAD", path: "/plain/long"},
	{method: "GET", path: "/plain/pieces"},
	{method: "GET", path: "/plain/trailer"},
	{method: "GET", path: "/plain/nothing"},
	{method: "GET", path: "/plain/unchanged"},
	{method: "GET", path: "/plain/hints"},
	{method: "GET", path: "/plain/abort"},
	{method: "GET", path: "/plain/abort-later"},
	{method: "GET", path: "/plain/empty"},
	{method: "HEAD", path: "/plain/empty"},
	{method: "GET", path: "/plain/odd"},
	{method: "GET", path: "/plain/short"},
	{method: "OPTIONS", path: "*"},
	{method: "GET", path: "http://localhost/plain/request"},
	{method: "GET", path: "//plain/request"},
	{method: "GET", path: "/plain/%zz"},
	{method: "GET", path: ""},
	{method: "", path: "/"},
	{method: "G T", path: "/plain/request"},
	{method: "GET", path: "/plain/\x01"},
	{method: "GET", path: "/plain/a b"},
	{pseudo: []string{":method", "CONNECT", ":authority", "localhost:1"}},
	{pseudo: []string{":method", "CONNECT", ":authority", "localhost", ":path", "/", ":scheme", "http"}},
	{pseudo: []string{":method", "CONNECT", ":protocol", "websocket", ":authority", "localhost", ":path", "/", ":scheme", "http"}},
	{pseudo: []string{":method", "GET", ":path", "/plain/request"}},
	{pseudo: []string{":method", "GET", ":scheme", "http", ":path", "/plain/request"}},
	{pseudo: []string{":method", "GET", ":scheme", "http", ":path", "/plain/request", "host", "localhost"}},
	{pseudo: []string{":method", "GET", ":scheme", "http", ":path", "/plain/request", ":authority", "a@localhost"}},
	{pseudo: []string{":method", "GET", ":scheme", "http", ":path", "/plain/request", ":authority", ""}},
	{pseudo: []string{":method", "GET", ":scheme", "ftp", ":path", "/plain/request", ":authority", "localhost"}},
	{pseudo: []string{":method", "GET", ":scheme", "https", ":path", "/plain/request", ":authority", "localhost"}},
	{pseudo: []string{":method", "GET", ":method", "GET", ":scheme", "http", ":path", "/plain/request", ":authority", "localhost"}},
	{pseudo: []string{"a", "b", ":method", "GET", ":scheme", "http", ":path", "/plain/request", ":authority", "localhost"}},
	{pseudo: []string{":method", "GET", ":scheme", "http", ":path", "/plain/request", ":authority", "localhost", ":status", "200"}},
	{method: "GET", path: "/plain/request", fields: []string{"large", strings.Repeat("x", 33<<10)}},
	{method: "GET", path: "/plain/request", fields: []string{"large", strings.Repeat("x", 100<<10)}},
	{method: "POST", path: "/Text/Echo", fields: append(grpcFields[:4:4], "large", strings.Repeat("x", 33<<10)), body: enveloped(`"hello"`)},
}

// http2Fields are fields that requests have more than theirs.
var http2Fields = [][]string{
	{"x-a", "b"}, {"x-a", "c"}, {"cookie", "a=b"}, {"cookie", "c=d"}, {"x-empty", ""}, {"accept-encoding", "gzip"}, {"grpc-accept-encoding", "gzip"},
	{"content-length", "0"}, {"content-length", "9"}, {"content-length", strconv.Itoa(len(enveloped(`"hello"`)))}, {"content-length", "-1"}, {"content-length", "+9"}, {"content-length", "9,9"},
	{"connection", "close"}, {"connection", "keep-alive"}, {"transfer-encoding", "chunked"}, {"upgrade", "h2c"}, {"keep-alive", "1"}, {"proxy-connection", "close"},
	{"te", "trailers"}, {"te", "gzip"}, {"te", "trailers, deflate"}, {"host", "localhost"}, {"host", "elsewhere"},
	{"Upper", "case"}, {"", "nameless"}, {"sp ace", "x"}, {"x-value", "a\nb"}, {"x-value", "a\x00b"}, {"x-value", " a"}, {"x-value", "a\t"}, {"x-value", "ä"}, {"x-value", "\x7f"}, {"x-n\xc3\xa4me", "x"},
	{"trailer", "Later"}, {"trailer", "Content-Length"}, {"expect", "100-continue"}, {"expect", "200-ok"}, {"http2-settings", "AAAA"}, {"priority", "u=1"}, {":later", "x"},
	{"authorization", "one"}, {"authorization", "two"}, {"grpc-timeout", "x"}, {"grpc-encoding", "gzip"}, {"grpc-encoding", "br"}, {"content-type", "text/plain"},
}
