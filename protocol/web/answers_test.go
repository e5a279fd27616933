package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

// canned is a connection to a server that answers any request with the same bytes, and then
// closes.
type canned struct {
	net.Conn // nil

	answer *bytes.Reader
	asked  chan struct{}
	once   sync.Once
}

func newCanned(answer []byte) *canned {
	return &canned{answer: bytes.NewReader(answer), asked: make(chan struct{})}
}

func (c *canned) Read(p []byte) (int, error) {
	<-c.asked
	return c.answer.Read(p)
}

func (c *canned) Write(p []byte) (int, error) {
	c.ask()
	return len(p), nil
}

func (c *canned) Close() error {
	c.ask()
	return nil
}

func (c *canned) ask()                             { c.once.Do(func() { close(c.asked) }) }
func (*canned) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (*canned) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (*canned) SetDeadline(time.Time) error        { return nil }
func (*canned) SetReadDeadline(time.Time) error    { return nil }
func (*canned) SetWriteDeadline(_ time.Time) error { return nil }

// mostAnswered is the limit of a response's message.
const mostAnswered = 1000

// calledAt makes a call over Connect to a server that sends this response, over HTTP/1.1.
func calledAt(answer []byte) (*client.Request, error) {
	remote := &client.Remote{Endpoint: tandem.Endpoint{Transport: "tcp", Address: "server:1"}, MaxMessage: mostAnswered}
	s := httpcalls.New(newCanned(answer), func(context.Context) (net.Conn, error) { return nil, io.EOF })
	defer func() { _ = s.Close() }()
	c := &caller{Server: s, clientProtocol: newCalling("test", connectDialect{}), remote: remote}
	r := &client.Request{Call: &tandem.Call{Method: "a.B.C", Codec: "protobuf"}, Message: []byte{8, 1}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r, c.Carry(ctx, r)
}

// Whatever a server answers, a call ends with a message within the limit, or an error with
// a valid code.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 2\r\n\r\n\x08\x01",
		"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 43\r\n\r\n" + `{"code":"not_found","message":"x","details":[{"type":"a.B","value":"CAE"}]}`,
		"HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nContent-Length: 1\r\n\r\n{",
		"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, err := calledAt(answer)
		checkAnswer(t, r, err)
	})
}

// checkAnswer checks what a call at a server has returned that may answer anything.
func checkAnswer(t *testing.T, r *client.Request, err error) {
	if err == nil {
		if len(r.Reply) > mostAnswered {
			t.Fatalf("%d bytes", len(r.Reply))
		}
		return
	}
	e, ok := errors.AsType[*tandem.Error](err)
	if !ok || e.Code == tandem.OK || !e.Code.Valid() {
		t.Fatal(err)
	}
}

// http2Answer is a response over HTTP/2: the blocks of its header and trailer, without compression by
// a table, and its body.
type http2Answer struct{ head, body, trailer string }

// pack encodes fields, given as name and value in turns.
func pack(fields ...string) string {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	return b.String()
}

// answer plays a server with one response.
func (a http2Answer) answer(c net.Conn) {
	defer c.Close()
	read := http2.NewFramer(io.Discard, c)
	write := http2.NewFramer(c, nil)
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil || write.WriteSettings() != nil {
		return
	}
	for {
		f, err := read.ReadFrame()
		if err != nil {
			return
		}
		if !f.Header().Flags.Has(http2.FlagDataEndStream) || f.Header().Type != http2.FrameData {
			continue
		}
		end := a.trailer == "" && a.body == ""
		_ = write.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(a.head), EndHeaders: true, EndStream: end})
		if a.body != "" {
			_ = write.WriteData(1, a.trailer == "", []byte(a.body))
		}
		if a.trailer != "" {
			_ = write.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(a.trailer), EndHeaders: true, EndStream: true})
		}
	}
}

// call makes a unary call, or one by a stream, at a server that answers so.
func (a http2Answer) call(d dialect, stream bool) (*client.Request, error) {
	near, far := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.answer(far)
	}()
	defer func() { <-ended }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	remote := &client.Remote{Endpoint: tandem.Endpoint{Transport: "tcp", Address: "server:1"}, MaxMessage: mostAnswered, StreamWindow: 1 << 16}
	h := newHTTP2Caller(newCalling("test", d), remote, "http")
	defer h.Close()
	r := &client.Request{Call: &tandem.Call{Method: "a.B.C", Codec: "protobuf"}, Message: []byte{8, 1}}
	if !stream {
		if _, err := h.Add(ctx, near); err != nil {
			return nil, err
		}
		return r, h.Carry(ctx, r)
	}
	if _, err := h.streams.Add(ctx, near); err != nil {
		return nil, err
	}
	m, err := h.CarryStream(ctx, r)
	if err != nil {
		return r, err
	}
	defer m.Close()
	if err = errors.Join(m.Send(r.Message), m.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return r, err
	}
	for err = nil; err == nil; {
		r.Reply, err = m.Receive()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return r, err
}

// dialects are those of the calls of FuzzHTTP2Answer.
var dialects = []dialect{grpcDialect{}, connectDialect{}} //nolint:gochecknoglobals // a table

// FuzzHTTP2Answer is FuzzAnswer over HTTP/2, for gRPC and Connect, and for streams.
func FuzzHTTP2Answer(f *testing.F) {
	grpc, web := pack(":status", "200", "content-type", "application/grpc+proto"), pack(":status", "200", "content-type", "application/proto")
	for _, status := range []string{"0", "5", "16", "17", "99", "256", "4294967295", "-1", ""} {
		for _, last := range []string{"", "CAUSAXg", "CAUSAXgaBgoBYRIBYg", "====", "CAU"} {
			trailer := pack("grpc-status", status, "grpc-message", "a%20b%", "grpc-status-details-bin", last, "a", "b")
			f.Add(grpc, "\x00\x00\x00\x00\x02\x08\x01", trailer, uint8(0))
		}
	}
	f.Add(pack(":status", "200", "content-type", "application/grpc", "grpc-status", "3", "grpc-retry-pushback-ms", "-1"), "", "", uint8(0))
	f.Add(grpc, "\x01\x00\x00\x00\x02\x08\x01", pack("grpc-status", "0"), uint8(2))
	f.Add(pack(":status", "503", "content-type", "text/plain"), "no", "", uint8(0))
	f.Add(web, "\x08\x01", "", uint8(1))
	f.Add(pack(":status", "404", "content-type", "application/json", "trailer-a", "b"), `{"code":"not_found","message":"x","details":[{"type":"a.B","value":"CAE"}]}`, "", uint8(1))
	f.Add(pack(":status", "200", "content-type", "application/connect+proto"), "\x00\x00\x00\x00\x02\x08\x01\x02\x00\x00\x00\x02{}", "", uint8(3))
	f.Add(pack(":status", "200", "content-type", "application/connect+proto"), "\x02\x00\x00\x00\x2f"+`{"error":{"code":"aborted"},"metadata":{"a":[]}}`, "", uint8(3))
	f.Fuzz(func(t *testing.T, head, body, trailer string, kind uint8) {
		const most = 1 << 14 // of a frame
		if len(head) > most || len(body) > most || len(trailer) > most {
			return
		}
		r, err := http2Answer{head, body, trailer}.call(dialects[kind&1], kind&2 != 0)
		checkAnswer(t, r, err)
	})
}
