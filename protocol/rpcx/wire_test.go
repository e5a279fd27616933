package rpcx

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

type Args struct{ A, B int }

type Reply struct{ C int }

type Arith struct{}

func (Arith) Mul(args *Args, reply *Reply) error {
	reply.C = args.A * args.B
	return nil
}

func (Arith) Fail(*Args, *Reply) error { return errors.New("bad args") }

// serve runs a server with the protocol and the methods that register adds, and returns its
// address.
func serve(t testing.TB, register func(*server.Server) error, opts ...server.Option) (*server.Server, string) {
	t.Helper()
	srv := server.New(append([]server.Option{server.WithProtocols(New())}, opts...)...)
	if err := register(srv); err != nil {
		t.Fatal(err)
	}
	ln, err := transport.TCP().Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return srv, ln.Addr().String()
}

func arith(srv *server.Server) error { return srv.Register(Arith{}) }

// peer is a client that sends frames.
type peer struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func connect(t testing.TB, address string) *peer {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &peer{c, t, bufio.NewReader(c)}
}

func (p *peer) send(f frame) {
	p.t.Helper()
	b, err := f.append(nil)
	if err == nil {
		_, err = p.Write(b)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive() frame {
	p.t.Helper()
	var f frame
	left, err := f.readHead(p.r)
	if err == nil {
		f.payload, err = readPayload(p.r, left)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// metadata returns the metadata of a frame.
func (f *frame) metadata(t testing.TB) map[string]string {
	t.Helper()
	md := map[string]string{}
	if err := pairs(f.block, func(k, v string) { md[k] = v }); err != nil {
		t.Fatal(err)
	}
	return md
}

// vector is one exchange of testdata/wire.txt.
type vector struct {
	name     string
	request  []byte
	response []byte
}

func readVectors(t testing.TB) (list []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/wire.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line[2:], " ", ""))
		switch {
		case strings.HasPrefix(line, "-> ") && err == nil:
			list[len(list)-1].request = b
		case strings.HasPrefix(line, "<- ") && err == nil:
			list[len(list)-1].response = b
		default:
			list = append(list, vector{name: line})
		}
	}
	return list
}

// The bytes that rpcx's client sends get the bytes that it expects, whether they arrive
// together or one at a time.
func TestGoldenVectors(t *testing.T) {
	_, address := serve(t, arith)
	vectors := readVectors(t)
	if len(vectors) < 5 {
		t.Fatalf("%d vectors", len(vectors))
	}
	p := connect(t, address)
	for _, v := range vectors {
		for i := range v.request {
			if _, err := p.Write(v.request[i : i+1]); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(v.response))
		if _, err := io.ReadFull(p, got); err != nil || !bytes.Equal(got, v.response) {
			t.Errorf("%s:\n%x, %v, want\n%x", v.name, got, err, v.response)
		}
	}
}

// Metadata of a request reaches the handler, and the handler's trailer reaches the client.
func TestMetadata(t *testing.T) {
	var call tandem.Call
	_, address := serve(t, func(srv *server.Server) error {
		return srv.RegisterFunc("T.Look", func(ctx context.Context, in []byte, out *[]byte) error {
			c := tandem.FromContext(ctx)
			call = *c
			c.Trailer = tandem.Metadata{"more": {"a", "b"}, "__rpcx_error__": {"no"}}
			*out = in
			return nil
		})
	})
	p := connect(t, address)
	block := appendPair(nil, "Trace-ID", "7")
	block = appendPair(block, keyAuth, "bearer t")
	block = appendPair(block, keyTimeout, "60000")
	before := time.Now()
	p.send(frame{kind: 0, format: formatRaw, seq: 1 << 60, service: "T", method: "Look", block: block, payload: []byte("in")})
	got := p.receive()
	md := got.metadata(t)
	if string(got.payload) != "in" || got.seq != 1<<60 || got.kind != response || len(md) != 1 || md["more"] != "a, b" {
		t.Errorf("%+v, %v", got, md)
	}
	if call.Metadata.Get("trace-id") != "7" || call.Metadata.Get("authorization") != "bearer t" || len(call.Metadata) != 2 {
		t.Errorf("metadata %v", call.Metadata)
	}
	if d := call.Deadline.Sub(before); d < 50*time.Second || d > 70*time.Second {
		t.Errorf("the deadline is %v from now", d)
	}
	if call.Codec != "raw" || call.Peer.Protocol != "rpcx" {
		t.Errorf("codec %q, protocol %q", call.Codec, call.Peer.Protocol)
	}
	p.send(frame{format: formatRaw, service: "T", method: "Look", block: appendPair(nil, keyTimeout, "0")})
	if got := p.receive(); got.kind != response|failedStatus || !strings.Contains(got.metadata(t)[keyError], "deadline exceeded") {
		t.Errorf("a call whose time is over: %+v, %v", got, got.metadata(t))
	}
}

// A request that is not supported is an error of its call that says what to do; the
// connection stays open.
func TestRefusals(t *testing.T) {
	_, address := serve(t, func(srv *server.Server) error {
		return errors.Join(srv.Register(Arith{}),
			srv.RegisterFunc("T.Two", func(a, b int) int { return a + b }),
			srv.RegisterFunc("T.TwoBack", func(a int) (int, int) { return a, a }),
			srv.RegisterFunc("T.Bytes", func(b []byte) int { return len(b) }),
			srv.RegisterFunc("T.Stream", func(s *tandem.Stream[int, int]) error { return nil }),
			srv.RegisterFunc("T.Panic", func(a int) int { panic(a) }))
	}, server.WithMaxMessage(64<<10), server.WithLogger(slog.New(slog.DiscardHandler)))
	p := connect(t, address)
	one := []byte{1}
	bomb, err := newProtocol().gzip.Compress(nil, append([]byte{0xc6, 0, 0x10, 0, 0}, make([]byte, 1<<20)...))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("l", 2000)
	for name, c := range map[string]struct {
		frame
		want string
	}{
		"Thrift":            {frame{format: formatThrift, service: "Arith", method: "Mul"}, "unimplemented: payloads of serialize type 4, Thrift, are not served here"},
		"unheard-of format": {frame{format: 9, service: "Arith", method: "Mul"}, "serialize type 9 are not"},
		"snappy":            {frame{kind: 2 << 2, format: formatMsgpack, service: "Arith", method: "Mul"}, "compress type 2 are not"},
		"no service":        {frame{service: "Nobody", method: "Mul"}, "rpcx: can't find service Nobody"},
		"no method":         {frame{service: "Arith", method: "Div"}, "rpcx: can't find method Div"},
		"two arguments":     {frame{format: formatMsgpack, service: "T", method: "Two", payload: one}, "it has 2 arguments; rpcx sends one"},
		"two results":       {frame{format: formatMsgpack, service: "T", method: "TwoBack", payload: one}, "it has 2 results; rpcx receives one"},
		"a stream":          {frame{format: formatMsgpack, service: "T", method: "Stream", payload: one}, "stream"},
		"a panic":           {frame{format: formatMsgpack, service: "T", method: "Panic", payload: one}, "internal: method T.Panic panicked"},
		"no msgpack":        {frame{format: formatMsgpack, service: "T", method: "Bytes", payload: []byte{0xc1}}, "invalid argument: "},
		"no gzip":           {frame{kind: gzipped, format: formatMsgpack, service: "T", method: "Bytes", payload: []byte{0xc1}}, "invalid argument: "},
		"a gzip bomb":       {frame{kind: gzipped, format: formatMsgpack, service: "T", method: "Bytes", payload: bomb}, "too large"},
		"too large":         {frame{format: formatMsgpack, service: "T", method: "Bytes", payload: make([]byte, 65<<10)}, "T.Bytes takes at most 65536"},
		"a long name":       {frame{service: long, method: "Mul", payload: one}, "a service's name of 2000 bytes, limit 1024"},
		"a long method":     {frame{service: "T", method: long, payload: one}, "a method's name of 2000 bytes, limit 1024"},
		"much metadata":     {frame{service: "T", method: "Bytes", block: make([]byte, maxMetadata+1), payload: one}, "metadata of 16385 bytes, limit 16384"},
		"many pairs":        {frame{service: "T", method: "Bytes", block: make([]byte, 8*(maxPairs+1)), payload: one}, "metadata of more than 128 pairs"},
		"half a pair":       {frame{service: "T", method: "Bytes", block: make([]byte, 4), payload: one}, "metadata is cut short"},
		"a lying pair":      {frame{service: "T", method: "Bytes", block: []byte{0xff, 0xff, 0xff, 0xff, 0}, payload: one}, "metadata is cut short"},
	} {
		c.seq = 77
		p.send(c.frame)
		got := p.receive()
		if text := got.metadata(t)[keyError]; got.kind != response|failedStatus || got.seq != 77 || !strings.Contains(text, c.want) {
			t.Errorf("%s: %+v: %q, want %q", name, got, text, c.want)
		}
	}
	p.send(frame{format: formatMsgpack, service: "Arith", method: "Mul", payload: []byte{0x80}})
	if got := p.receive(); got.kind != response {
		t.Errorf("the connection is no good any more: %+v", got)
	}
}

// Malformed frames end the connection, and take little memory.
func TestHostileFrames(t *testing.T) {
	_, address := serve(t, arith, server.WithStallTimeout(100*time.Millisecond))
	good, err := (&frame{format: formatMsgpack, service: "Arith", method: "Mul", payload: []byte{0x80}}).append(nil)
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, to ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], to)
		return b
	}
	for name, second := range map[string][]byte{
		"another magic":        change(0, 9),
		"an answer":            change(2, response),
		"a short frame":        change(12, 0, 0, 0, 15),
		"a name beyond it":     change(16, 0, 0, 0, 99),
		"a name of 4 GiB":      change(16, 0xff, 0xff, 0xff, 0xff),
		"4 GiB, not sent":      change(12, 0xff, 0xff, 0xff, 0xff),
		"cut in the head":      good[:10],
		"cut in the arguments": good[:len(good)-1],
	} {
		p := connect(t, address)
		if _, err := p.Write(append(bytes.Clone(good), second...)); err != nil {
			t.Fatal(err)
		}
		if got := p.receive(); got.kind != response {
			t.Errorf("%s: the request before is answered with %+v", name, got)
		}
		if b, err := io.ReadAll(p.r); errors.Is(err, os.ErrDeadlineExceeded) || len(b) > 0 && name != "4 GiB, not sent" {
			t.Errorf("%s: %x, %v", name, b, err)
		}
	}
}

// A first request that arrives a byte at a time is detected as early as possible.
func TestMatch(t *testing.T) {
	p := New()
	for first, want := range map[string]server.Verdict{
		"\x08":                 server.NeedMore,
		"\x08\x00\x00":         server.NeedMore,
		"\x08\x00\x00\x30":     server.Yes,
		"\x08\x00\x60\x30xxxx": server.Yes,
		"\x08\x00\x80":         server.No,
		"\x08\x00\x00\x31":     server.No,
		"\x09":                 server.No,
		"G":                    server.No,
	} {
		if got := p.Match([]byte(first)); got != want {
			t.Errorf("%q: %v, want %v", first, got, want)
		}
	}
}

// Parsing returns what was appended, for any frame.
func FuzzFrame(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(v.request)
		f.Add(v.response)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var in frame
		r := bufio.NewReaderSize(bytes.NewReader(data), 16)
		left, err := in.readHead(r)
		if left > 1<<20 {
			return
		}
		if err != nil {
			if _, refused := errors.AsType[*limitError](err); refused {
				_, _ = r.Discard(left)
			}
			return
		}
		if in.payload, err = readPayload(r, left); err != nil {
			return
		}
		_ = pairs(in.block, func(string, string) {})
		made, err := in.append(nil)
		if err != nil {
			t.Fatal(err)
		}
		var again frame
		r.Reset(bytes.NewReader(made))
		left, err = again.readHead(r)
		if err != nil || left != len(in.payload) || again.service != in.service || again.method != in.method ||
			again.seq != in.seq || !bytes.Equal(again.block, in.block) {
			t.Fatalf("%+v, %v is not %+v", again, err, in)
		}
	})
}
